"""Reports that are rejected, stale, wasted or dropped; selectors that probe and learn."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from fedfleet.choose.uniform import uniform
from fedfleet.core.events import (
    ModelCommitted,
    ReportRejected,
    ReportsGathered,
    RoundFailed,
    TaskArrived,
    TasksDropped,
    TasksSent,
)
from fedfleet.core.parts import Selector
from fedfleet.core.records import DROPPED, FATES, FOLDED, LOST, REJECTED, WASTED, Stop, whole_work
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.testing.toys import consensus
from tests.worlds import commits_at, even_fleet, events_of, kinds_of, only, toy_plan, world_of


def spoilt(clients, spoil):
    """The consensus toy in which these clients' updates are spoilt."""
    inner = consensus()

    def local(client, settings):
        def report(job, dataset):
            honest = inner.local(client, settings)(job, dataset)
            return replace(honest, update=spoil(honest.update)) if job.client in clients else honest

        return report

    return replace(inner, local=local)


SPOILS = {
    "leaf 'w' is not finite": lambda update: {"w": update["w"] * np.float32("nan")},
    "leaf 'w' reaches 2048, beyond its bound 1024": lambda update: {"w": np.full(4, 2048, np.float32)},
    r"leaf 'w' has shape \(5,\), not \(4,\)": lambda update: {"w": np.zeros(5, np.float32)},
    "leaf 'w' is missing": lambda update: {},
}


@pytest.mark.parametrize("why", SPOILS)
@pytest.mark.parametrize("eager", [False, True])
def test_a_bad_report_arrives_weighs_nothing_and_is_named(why, eager):
    plan = toy_plan(readiness(4), 4, algorithm=spoilt({2}, SPOILS[why]), stop=Stop(rounds=1))
    events, end = events_of(plan, world_of(even_fleet(4)), eager=eager)
    (rejected,) = only(ReportRejected, events)
    assert rejected.client == 2
    assert len(only(TaskArrived, events)) == 4
    assert rejected.task in [e.task for e in only(TaskArrived, events) if e.client == 2]
    assert re.fullmatch(f"client 2: {why}", rejected.reason)
    (committed,) = only(ModelCommitted, events)
    assert committed.folded == 3
    kinds = kinds_of(events)
    assert kinds.index("ReportsGathered") < kinds.index("ReportRejected") < kinds.index("ModelCommitted")
    # The model is that of the other three, as if the fourth had never been asked for.
    honest = toy_plan(readiness(4, min_clients=0), 4, choose=without(2), stop=Stop(rounds=1))
    _, alone = events_of(honest, world_of(even_fleet(4)))
    assert np.array_equal(end.state.server.params["w"], alone.state.server.params["w"])


def without(client):
    def pick(state, roster, n, draw):
        return whole_work(roster.clients[roster.clients != client])

    return Selector("without", pick)


def test_if_no_report_remains_the_version_stays():
    plan = toy_plan(readiness(2), 4, algorithm=spoilt({0, 1, 2, 3}, SPOILS["leaf 'w' is not finite"]), stop=Stop(rounds=3))
    events, end = events_of(plan, world_of(even_fleet(4)))
    assert [(e.round, e.reason) for e in only(RoundFailed, events)] == [(r, "no report could be folded") for r in range(3)]
    assert len(only(ReportRejected, events)) == 6
    assert not only(ModelCommitted, events)
    assert end.state.book.version == 0
    assert not end.state.server.params["w"].any()
    assert {e.version for e in only(TasksSent, events)} == {0}


def noting_contexts(notes):
    """The consensus toy, whose fold notes the context of every report."""
    toy = consensus()

    def enter(weight, stats, context):
        if (context.task, context) not in notes:  # asked once to check and once to add
            notes.append((context.task, context))
        return toy.fold.enter(weight, stats, context)

    return replace(toy, fold=replace(toy.fold, enter=enter))


def test_who_is_not_dropped_reports_later_with_its_staleness():
    # Rounds open every second; client 0 needs so long that two models are committed before it is back.
    notes = []
    fleet = even_fleet(3, [3.5, 1.0, 1.0])
    everyone = Selector("everyone", lambda state, roster, n, draw: whole_work(roster.clients[:n]))
    plan = toy_plan(commits_at(3, 2, t_break=0.5), 3, algorithm=noting_contexts(notes), choose=everyone, stop=Stop(rounds=4))
    events, _ = events_of(plan, world_of(fleet, steady=True))
    assert [e.time for e in only(ModelCommitted, events)][:3] == [1.5, 3.0, 4.5]
    first = dict(notes)
    # Task 0 was sent at 0.5 with version 0 and arrived at 4.0, when version 2 had been committed.
    assert (first[0].client, first[0].staleness, first[0].seconds) == (0, 2, 3.5)
    sent = {e.first + i: e for e in only(TasksSent, events) for i in range(len(e.clients))}
    gathered = {t: n for n, e in enumerate(only(ReportsGathered, events)) for t in e.tasks.tolist()}
    for task, context in notes:
        assert context.staleness == gathered[task] - sent[task].version
    # While it is away it is not asked again.
    assert [e.clients.tolist() for e in only(TasksSent, events)][:3] == [[0, 1, 2], [1, 2], [1, 2]]


def test_a_stale_report_starts_from_the_model_that_it_was_offered():
    fleet = even_fleet(3, [3.5, 1.0, 1.0])
    plan = toy_plan(commits_at(3, 2, t_break=0.5), 3, stop=Stop(rounds=4))
    lazy, eager = (events_of(plan, world_of(fleet, steady=True), eager=e)[0] for e in (False, True))
    assert [e.model_hash for e in only(ModelCommitted, lazy)] == [e.model_hash for e in only(ModelCommitted, eager)]


@pytest.mark.parametrize(("drop", "when"), [(0, 1.5), (1, 3.0), (2, 4.5), (None, 7.5)])
def test_drop_gives_up_tasks_whose_model_is_so_many_versions_old(drop, when):
    fleet = even_fleet(3, [100.0, 1.0, 1.0])
    everyone = Selector("everyone", lambda state, roster, n, draw: whole_work(roster.clients[:n]))
    plan = toy_plan(commits_at(3, 2, t_break=0.5, drop=drop), 3, choose=everyone, stop=Stop(rounds=5))
    events, _ = events_of(plan, world_of(fleet, steady=True))
    first = only(TasksDropped, events)[0]
    assert (first.time, first.tasks.tolist(), first.clients.tolist()) == (when, [0], [0])
    assert first.seconds.tolist() == [when - 0.5]


def learning(log):
    """Uniform selection that writes down how tasks ended."""

    def learn(state, ended, now):
        log.append((now, ended))
        return {"seen": state["seen"] + len(ended.tasks)}

    return replace(uniform(), learn=learn, initial=lambda clients: {"seen": np.zeros(1, np.int64)})


def fates(ended):
    return {int(c): FATES[f] for c, f in zip(ended.clients, ended.fate, strict=True)}


def test_a_selector_learns_how_every_task_ended():
    log = []
    fleet = even_fleet(5, [2.0, 4.0, float("inf"), 50.0, 3.0])
    plan = toy_plan(
        deadline(5, seconds=10.0, t_break=1.0),
        5,
        algorithm=spoilt({1}, SPOILS["leaf 'w' is not finite"]),
        choose=learning(log),
        stop=Stop(rounds=1),
    )
    _, end = events_of(plan, world_of(fleet, steady=True))
    ((now, ended),) = log
    assert now == 11.0
    assert fates(ended) == {0: "folded", 1: "rejected", 2: "lost", 3: "dropped", 4: "folded"}
    seconds = dict(zip(ended.clients.tolist(), ended.seconds.tolist(), strict=True))
    assert math.isnan(seconds.pop(2)), "whoever cannot do the work at all must not look fastest"
    assert seconds == {0: 2.0, 1: 4.0, 3: 10.0, 4: 3.0}
    assert ended.tasks.tolist() == sorted(ended.tasks.tolist())
    # What the report said is known of the folded alone.
    known = dict(zip(ended.fate.tolist(), np.isfinite(ended.stats["loss"]).tolist(), strict=True))
    assert known == {FOLDED: True, REJECTED: False, LOST: False, DROPPED: False}
    assert end.state.selector["seen"] == 5


def test_what_arrived_in_a_failed_round_was_wasted():
    log = []
    fleet = even_fleet(4, [2.0, 50.0, 60.0, 70.0])
    plan = toy_plan(deadline(4, seconds=10.0, min_share=0.5), 4, choose=learning(log), stop=Stop(rounds=1))
    events, _ = events_of(plan, world_of(fleet, steady=True))
    assert fates(log[0][1]) == {0: "wasted", 1: "dropped", 2: "dropped", 3: "dropped"}
    assert WASTED in log[0][1].fate
    assert only(RoundFailed, events)[0].reason == "1 of at least 2 reports arrived"


def test_what_was_wasted_is_not_folded_later():
    fleet = even_fleet(4, [2.0, 50.0, 60.0, 70.0])
    plan = toy_plan(deadline(4, seconds=10.0, min_share=0.5), 4, stop=Stop(rounds=3))
    events, end = events_of(plan, world_of(fleet, steady=True))
    assert len(only(RoundFailed, events)) == 3
    assert end.state.book.version == 0
