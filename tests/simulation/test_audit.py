"""Audits: every honest run is derived again, also those that probe, forget, remember and reject; no lie goes unnoticed."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from fedfleet.choose.uniform import uniform
from fedfleet.core.errors import RunFailed
from fedfleet.core.events import Evaluated, ModelCommitted, ReportRejected, ReportsGathered
from fedfleet.core.parts import Selector
from fedfleet.core.records import ClientScores, Stop, whole_work
from fedfleet.core.trees import content_hash
from fedfleet.simulation.audit import audit_by_rerun, audit_decisions, audit_served_run
from fedfleet.simulation.audit_record import Mismatch
from fedfleet.simulation.simulator import simulate
from fedfleet.store.aggregates import keep_aggregate
from fedfleet.store.journal_rows import COLUMNS, Kind, Row, encode
from fedfleet.testing.toys import consensus, opaque_executor
from tests.worlds import commits_at, even_fleet, events_of, fleets, paces, toy_plan, world_of

pytestmark = pytest.mark.slow


def numbered(log):
    """Events as the numbered rows that the journal gives back: NaN is nothing there."""
    rows = [tuple(None if v != v else v for v in row) for event in log for row in encode(event)[0]]
    return list(enumerate(rows, 1))


def changed(rows, at, **columns):
    """The rows with some columns of one of them changed."""
    row = dict(zip(COLUMNS, rows[at][1], strict=True)) | columns
    return [*rows[:at], (rows[at][0], tuple(row.values())), *rows[at + 1 :]]


def first(rows, kind, nth=0):
    return [i for i, (_, row) in enumerate(rows) if row[1] == kind][nth]


@settings(deadline=None, derandomize=True, max_examples=25)
@given(fleets(), paces())
def test_every_run_is_derived_again_to_its_end(fleet, pace):
    plan = toy_plan(pace.policy(), len(fleet), algorithm=consensus(remembers=True), stop=Stop(rounds=5))
    log, end = events_of(plan, world_of(fleet))
    rows = numbered(log)
    result = audit_by_rerun(plan, world_of(fleet), opaque_executor(), rows)
    assert content_hash(result.params) == content_hash(end.state.server.params)
    assert result.commits == end.state.book.version and not result.believed
    assert audit_decisions(plan, world_of(fleet), rows).commits == end.state.book.version
    for cut in (1, len(rows) // 2, len(rows) - 1):  # a run that is still going on
        assert audit_by_rerun(plan, world_of(fleet), opaque_executor(), rows[:cut]).events <= result.events
        audit_decisions(plan, world_of(fleet), rows[:cut])


def probing(stat):
    def probe(state, roster, n, draw):
        return roster.clients[:3], stat

    def pick(state, roster, n, draw):
        return whole_work(roster.clients[np.argsort(roster.stats[stat], kind="stable")[:n]])

    return Selector("probing", pick, probe=probe)


@pytest.mark.parametrize("stat", ["seconds", "loss"])
def test_a_selector_that_probes_is_followed(stat):
    plan = toy_plan(commits_at(2, 2), 5, choose=probing(stat))
    log, end = events_of(plan, world_of(even_fleet(5)))
    rows = numbered(log)
    result = audit_by_rerun(plan, world_of(even_fleet(5)), opaque_executor(), rows)
    assert content_hash(result.params) == content_hash(end.state.server.params)
    audit_decisions(plan, world_of(even_fleet(5)), rows)
    other = changed(rows, first(rows, Kind.SENT), client=4)
    with pytest.raises(Mismatch, match="client is 4"):
        audit_decisions(plan, world_of(even_fleet(5)), other)


def learning(choose):
    """The same selector, which now learns; nobody knows what it would pick without training."""
    return replace(choose, learn=lambda state, ended, now: {"n": state["n"] + 1}, initial=lambda n: {"n": np.zeros(1)})


def test_picks_of_a_selector_that_learns_are_believed_where_nothing_is_trained():
    plan, world = toy_plan(commits_at(3, 2), 6, choose=learning(uniform())), world_of(even_fleet(6))
    rows = numbered(events_of(plan, world)[0])
    assert "picks" in audit_by_rerun(plan, world, opaque_executor(), rows).verified
    assert "picks" in audit_decisions(plan, world, rows).believed


def test_refused_reports_are_followed_in_every_way():
    """A client whose reports can never be folded."""
    algorithm = consensus()

    def local(client, settings):
        inner = algorithm.local(client, settings)

        def work(*given):
            report = inner(*given)
            return replace(report, update={n: v * np.nan for n, v in report.update.items()}) if client == 1 else report

        return work

    for choose in (uniform(), learning(uniform())):
        plan = toy_plan(commits_at(4, 3), 4, algorithm=replace(algorithm, local=local), choose=choose)
        log, _ = events_of(plan, world_of(even_fleet(4)))
        assert any(isinstance(e, ReportRejected) for e in log)
        rows = numbered(log)
        audit_by_rerun(plan, world_of(even_fleet(4)), opaque_executor(), rows)
        audit_decisions(plan, world_of(even_fleet(4)), rows)
        with pytest.raises(RunFailed):
            audit_decisions(plan, world_of(even_fleet(4)), changed(rows, first(rows, Kind.REJECTED), task=3))


LIES = {
    "another model": (Kind.COMMITTED, {"body": "0" * 64}),
    "another score": (Kind.EVALUATED, {"a": 77.0}),
    "another loss": (Kind.COMMITTED, {"note": "0.1"}),
    "another roster": (Kind.SEEN, {"body": "0" * 16}),
    "another client": (Kind.SENT, {"client": 5}),
    "another time": (Kind.ARRIVED, {"time": 10.5}),
    "other seconds": (Kind.ARRIVED, {"a": 3.25}),
    "other bytes": (Kind.ARRIVED, {"b": 1.0}),
    "another seed": (Kind.BEGAN, {"body": "{}"}),
    "another reason": (Kind.ENDED, {"body": "patience"}),
    "another kind": (Kind.ARRIVED, {"kind": 77}),
    "no number": (Kind.ARRIVED, {"task": "many"}),
}


@pytest.mark.parametrize("lie", LIES)
def test_the_row_that_lies_is_named(lie):
    plan, world = toy_plan(commits_at(3, 2), 6), world_of(even_fleet(6))
    rows = numbered(events_of(plan, world)[0])
    kind, columns = LIES[lie]
    at = first(rows, kind)
    with pytest.raises(Mismatch) as result:
        audit_by_rerun(plan, world, opaque_executor(), changed(rows, at, **columns))
    assert result.value.row == at + 1
    if lie in ("another model", "another score", "another loss"):
        return  # only training tells
    with pytest.raises(RunFailed):
        audit_decisions(plan, world, changed(rows, at, **columns))


def test_rows_that_are_missing_or_too_many_are_named():
    plan, world = toy_plan(commits_at(3, 2), 6), world_of(even_fleet(6))
    rows = numbered(events_of(plan, world)[0])
    at = first(rows, Kind.ARRIVED)
    for odd in (
        [*rows[: at + 1], *rows[at:]],
        [*rows[:at], *rows[at + 1 :]],
        [*rows, rows[at]],
        [*rows[:-2], rows[-1]],
    ):
        with pytest.raises(Mismatch):
            audit_by_rerun(plan, world, opaque_executor(), odd)
        with pytest.raises(Mismatch):
            audit_decisions(plan, world, odd)
    with pytest.raises(Mismatch):
        audit_by_rerun(replace(plan, seed=99), world, opaque_executor(), rows)


def test_kept_aggregates_need_no_training(tmp_path):
    plan, world, log = toy_plan(commits_at(3, 2), 6), world_of(even_fleet(6)), []
    simulate(plan, world, opaque_executor(), watch=log.extend)
    numbers = iter(range(100))
    simulate(
        plan, world, opaque_executor(),
        watch=lambda events: [keep_aggregate(tmp_path, next(numbers), e) for e in events if isinstance(e, ReportsGathered)],
    )  # fmt: skip
    rows = numbered(log)
    result = audit_served_run(plan, world, None, rows, tmp_path)
    assert "models" in result.verified and {"scores", "arrivals"} <= set(result.believed)
    assert result.commits == sum(isinstance(e, ModelCommitted) for e in log)
    assert "scores" in audit_served_run(plan, world, opaque_executor(), rows, tmp_path).verified
    with pytest.raises(Mismatch, match="correct is 77"):
        audit_served_run(plan, world, opaque_executor(), changed(rows, first(rows, Kind.EVALUATED), a=77.0, b=99.0), tmp_path)
    with pytest.raises(Mismatch):
        audit_served_run(plan, world, None, changed(rows, first(rows, Kind.COMMITTED), body="0" * 64), tmp_path)
    (tmp_path / "aggregates/00000001.safetensors").write_bytes(b"torn")
    with pytest.raises(RunFailed, match="00000001"):
        audit_served_run(plan, world, None, rows, tmp_path)


def test_scores_that_devices_gave_are_believed_and_the_servers_are_not(tmp_path):
    plan, world, log = toy_plan(commits_at(3, 2), 6), world_of(even_fleet(6)), []
    simulate(plan, world, opaque_executor(), watch=log.extend)
    for number, event in enumerate(e for e in log if isinstance(e, ReportsGathered)):
        keep_aggregate(tmp_path, number, event)
    at = max(i for i, e in enumerate(log) if isinstance(e, Evaluated))
    each = ClientScores(np.array([1, 4]), np.array([3, 2]), np.array([5, 2]))
    note = (
        0,
        tuple(
            Row(
                0.0,
                Kind.NOTE,
                note=f"version {log[at].version} was evaluated by 2 of 6 devices: 0 declined, 4 did not answer",
            )
        ),
    )

    def audited(rows, **said):
        events = [*log[:at], replace(log[at], clients=each, **said), *log[at + 1 :]]
        return audit_served_run(plan, world, opaque_executor(), [*rows, *numbered(events)], tmp_path)

    alone = {"correct": 5, "total": 7}  # what the devices found, and nothing else
    assert "scores by devices" in audited([note], **alone).believed
    assert "scores by devices" in audited([note]).believed  # the server judged too, and that is derived again
    for rows, said in (([], alone), ([], {}), ([note], {"correct": 6, "total": 7})):
        with pytest.raises(Mismatch):
            audited(rows, **said)


def test_a_replay_from_kept_aggregates_learns_from_the_same_statistics(tmp_path):
    def learning(log):
        def learn(state, ended, now):
            log.append({name: column.tolist() for name, column in ended.stats.items()})
            return {"loss": state["loss"] + np.nansum(ended.stats["loss"])}

        return replace(uniform(), learn=learn, initial=lambda clients: {"loss": np.zeros(1)})

    lived, again, log = [], [], []
    world, numbers = world_of(even_fleet(6)), iter(range(100))
    plan = toy_plan(commits_at(3, 2), 6, algorithm=consensus(remembers=True), choose=learning(lived), stop=Stop(rounds=6))

    def watch(events):
        log.extend(events)
        for event in events:
            if isinstance(event, ReportsGathered):
                keep_aggregate(tmp_path, next(numbers), event)

    simulate(plan, world, opaque_executor(), watch=watch)
    audit_served_run(replace(plan, choose=learning(again)), world, None, numbered(log), tmp_path)
    assert lived
    assert repr(again) == repr(lived)
