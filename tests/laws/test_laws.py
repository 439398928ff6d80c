"""Laws that hold in every world: hypothesis makes the worlds, the toys train without torch."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core.events import (
    ModelCommitted,
    PaceSet,
    ReportRejected,
    ReportsGathered,
    RoundFailed,
    RunEnded,
    TaskArrived,
    TaskLost,
    TasksDropped,
    TasksSent,
    TasksSpent,
)
from fedfleet.core.records import Stop
from fedfleet.core.registry import _BUILTIN
from fedfleet.core.sources import FaultDraws, FaultSource
from fedfleet.measure.costs import by_fate, energy
from fedfleet.measure.run_record import read_record
from fedfleet.measure.tasks import RUNNING, task_table
from fedfleet.pace.combinators import overcommit
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.testing.toys import consensus
from fedfleet.world.energy import phones
from tests.portions import examples
from tests.worlds import (
    PACES,
    doubled,
    even_fleet,
    events_of,
    fleets,
    only,
    paces,
    plain,
    renamed,
    toy_plan,
    world_of,
)

pytestmark = pytest.mark.slow

law = examples(40, soak=80)
horizons = st.one_of(st.just(1e7), st.integers(5, 400).map(float))


def run(fleet, pace, *, horizon=1e7, scale=1.0, rounds=5, algorithm=None, eager=False, seed=3):
    """The events of a run in which every time of the policy is multiplied by `scale`, and where it ended."""
    stop = Stop(rounds=rounds, virtual_seconds=horizon * scale)
    plan = toy_plan(pace.policy(scale), len(fleet), algorithm=algorithm, stop=stop, seed=seed)
    return events_of(plan, world_of(fleet), eager=eager)


def drawing(fleet, pace, *, horizon=1e7, scale=1.0, tail=0.0):
    """The events of a run whose devices draw power."""
    plan = toy_plan(pace.policy(scale), len(fleet), stop=Stop(rounds=5, virtual_seconds=horizon * scale))
    world = world_of(fleet)
    return events_of(plan, replace(world, energy=phones(tail=tail)(world.devices, world.keys, 0)))[0]


def shown(events, **how):
    return [plain(e, **how) for e in events]


@law
@given(fleets(), paces(), horizons)
def test_times_never_fall_and_the_end_is_the_end(fleet, pace, horizon):
    events, _ = run(fleet, pace, horizon=horizon)
    times = [e.time for e in events]
    assert times == sorted(times)
    assert times[-1] <= horizon
    assert [i for i, e in enumerate(events) if isinstance(e, RunEnded)] == [len(events) - 1]


@law
@given(fleets(), paces(), horizons)
def test_each_task_ends_exactly_once_and_a_client_runs_at_most_one(fleet, pace, horizon):
    events, _ = run(fleet, pace, horizon=horizon)
    running, sent, ended = {}, 0, Counter()
    for event in events:
        match event:
            case TasksSent():
                assert event.first == sent  # ids are consecutive
                for task, client in enumerate(event.clients.tolist(), start=sent):
                    assert client not in running.values()
                    running[task] = client
                sent += len(event.clients)
            case TaskArrived() | TaskLost():
                assert running.pop(event.task) == event.client
                ended[event.task] += 1
            case TasksDropped():
                for task, client in zip(event.tasks.tolist(), event.clients.tolist(), strict=True):
                    assert running.pop(task) == client
                    ended[task] += 1
    assert not running
    assert ended == Counter(range(sent))


@law
@given(fleets(), paces(), horizons)
def test_versions_and_rounds_are_consecutive(fleet, pace, horizon):
    events, end = run(fleet, pace, horizon=horizon)
    assert [e.version for e in only(ModelCommitted, events)] == list(range(1, end.state.book.version + 1))
    closed = [e.round for e in events if isinstance(e, ModelCommitted | RoundFailed)]
    assert closed == list(range(len(closed)))
    version = 0
    for event in events:
        if isinstance(event, ModelCommitted):
            version = event.version
        elif isinstance(event, TasksSent):
            assert event.version == version  # the newest model goes out


@law
@given(fleets(), paces(), horizons)
def test_nobody_is_folded_twice_and_only_who_arrived(fleet, pace, horizon):
    events, _ = run(fleet, pace, horizon=horizon)
    folded = [t for e in only(ReportsGathered, events) for t in e.tasks.tolist()]
    assert len(folded) == len(set(folded))
    assert set(folded) <= {e.task for e in only(TaskArrived, events)}
    assert [len(e.tasks) for e in only(ReportsGathered, events)] == [e.folded for e in only(ModelCommitted, events)]


@law
@given(fleets(), paces(), horizons)
def test_tasks_go_to_clients_that_are_ready_and_take_their_time(fleet, pace, horizon):
    events, _ = run(fleet, pace, horizon=horizon)

    def is_ready(client, time):
        return any(a <= time % fleet.periods[client] < b for a, b in fleet.ready[client])

    for event in only(TasksSent, events):
        assert all(is_ready(c, event.time) for c in event.clients.tolist())
    for event in only(TaskArrived, events):
        assert event.seconds >= fleet.seconds[event.client] * (1 + event.task % 3)
    assert all(fleet.seconds[e.client] == math.inf for e in only(TaskLost, events))


@law
@given(fleets(), st.integers(1, 4), st.integers(1, 20), st.integers(0, 2), horizons)
def test_a_deadline_that_never_comes_is_readiness(fleet, cohort, t_break, min_clients, horizon):
    common = {"t_break": float(t_break), "min_clients": min(min_clients, cohort)}
    stop = Stop(rounds=5, virtual_seconds=horizon)
    waits, dates = (
        events_of(toy_plan(policy, len(fleet), stop=stop), world_of(fleet))[0]
        for policy in (readiness(cohort, ready_share=1.0, **common), deadline(cohort, seconds=math.inf, **common))
    )
    assert shown(dates[1:]) == shown(waits[1:])


@law
@given(fleets(), paces(), horizons)
def test_doubling_all_durations_doubles_all_times_and_changes_nothing_else(fleet, pace, horizon):
    once, _ = run(fleet, pace, horizon=horizon)
    twice, _ = run(doubled(fleet), pace, horizon=horizon, scale=2.0)
    assert shown(twice) == shown(once, scale=2.0)


@law
@given(fleets(), paces(), horizons, st.randoms(use_true_random=False))
def test_renaming_clients_renames_the_journal_and_nothing_else(fleet, pace, horizon, random):
    order = list(range(len(fleet)))
    random.shuffle(order)
    before, _ = run(fleet, pace, horizon=horizon)
    after, _ = run(renamed(fleet, order), pace, horizon=horizon)
    assert shown(after, names=order) == shown(before)


@law
@given(fleets(), paces(), horizons, st.booleans())
def test_training_at_once_gives_the_same_events_as_training_late(fleet, pace, horizon, remembers):
    toy = consensus(remembers=remembers)
    late, at_once = (run(fleet, pace, horizon=horizon, algorithm=toy, eager=eager)[0] for eager in (False, True))
    assert shown(at_once) == shown(late)


@law
@given(fleets(), paces(), horizons)
def test_the_same_seed_gives_the_same_events(fleet, pace, horizon):
    assert shown(run(fleet, pace, horizon=horizon)[0]) == shown(run(fleet, pace, horizon=horizon)[0])


def test_another_seed_gives_another_run():
    fleet = even_fleet(6, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    one, other = (events_of(toy_plan(readiness(3), 6, seed=seed), world_of(fleet))[0] for seed in (3, 4))
    assert shown(one[1:]) != shown(other[1:])


def some_poisoned(poisoned):
    """The remembering toy in which these clients report garbage every time."""
    inner = consensus(remembers=True)

    def local(client, settings):
        def report(job, dataset):
            honest = inner.local(client, settings)(job, dataset)
            return replace(honest, update={"w": honest.update["w"] * np.float32("nan")}) if client in poisoned else honest

        return report

    return replace(inner, local=local)


@law
@given(fleets(), paces("readiness", "deadline"), horizons, st.sets(st.integers(0, 6), max_size=2), st.booleans())
def test_memory_advances_only_when_a_report_is_folded(fleet, pace, horizon, poisoned, eager):
    pace = replace(pace, max_staleness=0)  # late reports have a law of their own
    events, end = run(fleet, pace, horizon=horizon, rounds=8, algorithm=some_poisoned(poisoned), eager=eager)
    client = {e.first + i: c for e in only(TasksSent, events) for i, c in enumerate(e.clients.tolist())}
    folded = Counter(client[t] for e in only(ReportsGathered, events) for t in e.tasks.tolist())
    assert {c: int(end.memory.slots_of(c)["toy"]["count"][0]) for c in end.memory.current} == dict(folded)
    assert not poisoned & set(end.memory.current)
    assert {e.client for e in only(ReportRejected, events)} <= poisoned


@law
@given(fleets(), paces(), horizons, st.booleans())
def test_a_folded_task_leaves_the_memory_that_it_was_sent_with_moved_on_by_one(fleet, pace, horizon, eager):
    # A client whose report waits to be folded may be asked again before that: then the later task's memory stands.
    events, end = run(fleet, pace, horizon=horizon, rounds=8, algorithm=consensus(remembers=True), eager=eager)
    known, client, lent = {}, {}, {}
    for event in events:
        if isinstance(event, TasksSent):
            for task, who in enumerate(event.clients.tolist(), start=event.first):
                client[task], lent[task] = who, known.get(who, 0)
        elif isinstance(event, ReportsGathered):
            known |= {client[task]: lent[task] + 1 for task in event.tasks.tolist()}
    assert {c: int(end.memory.slots_of(c)["toy"]["count"][0]) for c in end.memory.current} == known


def test_the_law_of_memory_has_cases_of_every_kind():
    # Without dropped, rejected and wasted reports in its worlds the law above would say little.
    fleet = even_fleet(5, [2.0, 3.0, 6.0, 40.0, 50.0])
    policy = deadline(4, seconds=30.0, t_break=1.0, min_share=0.75)
    plan = toy_plan(policy, 5, algorithm=some_poisoned({0}), stop=Stop(rounds=12))
    events, end = events_of(plan, world_of(fleet, steady=True))
    assert only(ReportRejected, events)
    assert only(TasksDropped, events)
    assert any("reports arrived" in e.reason for e in only(RoundFailed, events))
    counts = {c: int(end.memory.slots_of(c)["toy"]["count"][0]) for c in end.memory.current}
    assert counts
    assert sum(counts.values()) == sum(e.folded for e in only(ModelCommitted, events))
    assert set(counts) <= {1, 2}


@law
@given(
    st.lists(st.integers(1, 50).map(float), min_size=2, max_size=7),
    st.integers(1, 7),
    st.randoms(use_true_random=False),
)
def test_the_order_of_arrival_within_a_round_leaves_the_model_bits_the_same(seconds, cohort, random):
    shuffled = list(seconds)
    random.shuffle(shuffled)
    plan = toy_plan(readiness(min(cohort, len(seconds)), min_clients=0), len(seconds))
    before, after = (events_of(plan, world_of(even_fleet(len(s), s)))[0] for s in (seconds, shuffled))
    assert [e.model_hash for e in only(ModelCommitted, after)] == [e.model_hash for e in only(ModelCommitted, before)]
    assert len(only(ModelCommitted, before)) == 4


@law
@given(st.integers(1, 7), st.integers(1, 30).map(float))
def test_whoever_needs_exactly_the_deadline_is_folded(clients, seconds):
    plan = toy_plan(deadline(clients, seconds=seconds, min_clients=0), clients)
    events, _ = events_of(plan, world_of(even_fleet(clients, seconds), steady=True))
    assert [e.folded for e in only(ModelCommitted, events)] == [clients] * 4
    assert not only(TasksDropped, events)


def test_the_laws_are_about_every_registered_policy():
    assert {*PACES, "overcommit"} == {*_BUILTIN["policies"], "eager_commits"}


@law
@given(fleets(), paces(), horizons, st.randoms(use_true_random=False))
def test_joules_double_with_all_durations_follow_their_clients_and_change_nothing_else(fleet, pace, horizon, random):
    once = drawing(fleet, pace, horizon=horizon)
    assert shown(drawing(doubled(fleet), pace, horizon=horizon, scale=2.0)) == shown(once, scale=2.0)
    order = list(range(len(fleet)))
    random.shuffle(order)
    assert shown(drawing(renamed(fleet, order), pace, horizon=horizon), names=order) == shown(once)
    without = [
        replace(e, spent={n: v for n, v in e.spent.items() if n != "joules"}) if isinstance(e, TasksSpent) else e for e in once
    ]
    assert shown(without) == shown(run(fleet, pace, horizon=horizon)[0])


@law
@given(fleets(), paces(), horizons)
def test_overcommitting_by_one_changes_nothing(fleet, pace, horizon):
    stop, policy = Stop(rounds=5, virtual_seconds=horizon), replace(pace, factor=1.0).policy()
    plain_, over = (
        events_of(toy_plan(p, len(fleet), stop=stop), world_of(fleet))[0] for p in (policy, overcommit(policy, factor=1.0))
    )
    assert shown(over[1:]) == shown(plain_[1:])


@law
@given(fleets(), paces("timeout"), horizons)
def test_a_timeout_asks_nobody_twice_in_a_round_and_shows_its_waits(fleet, pace, horizon):
    events, end = run(fleet, replace(pace, factor=1.0), horizon=horizon, rounds=8)
    asked = Counter((e.round, c) for e in only(TasksSent, events) for c in e.clients.tolist())
    assert set(asked.values()) <= {1}
    waits = [e.seconds for e in only(PaceSet, events)]
    assert all(pace.seconds / 2 <= s <= 4 * pace.seconds for s in waits)
    assert waits[-1] == end.state.book.kept[0], "the journal tells the whole timeline"


@law
@given(fleets(), paces(), horizons)
def test_every_task_that_ended_is_charged_once_and_joules_add_up(fleet, pace, horizon):
    events = drawing(fleet, pace, horizon=horizon, tail=0.5)
    told, tasks = only(TasksSpent, events), task_table(events)
    charged = [task for e in told for task in e.tasks.tolist()]
    assert sorted(charged) == np.flatnonzero(tasks.fate != RUNNING).tolist()
    record = read_record(events)
    spent = record.tasks.spending()
    got = energy(tasks, spent, record.probes, record.progress.costs["grams"])
    each = sum(float(e.spent["joules"].sum()) for e in told if "joules" in e.spent)
    assert (0.0 if got is None else got.useful + got.wasted) == pytest.approx(each)
    fates = by_fate(tasks, spent)
    elapsed = np.nansum(tasks.seconds)
    assert sum(r["worked_seconds"] + r["waited_seconds"] for r in fates.values()) == pytest.approx(elapsed)


def losing(fleet, often):
    """The fleet as a world in which `often` of seven tasks are lost half-way without a word, and some reports come twice."""

    def befall(clients, start, ends, tasks):
        n, lost = len(clients), tasks * 3 % 7 < often
        crash = np.where(lost, start + (ends - start) / 2, math.inf)
        again = np.where(tasks % 5 == 0, 4.0, math.inf)
        return FaultDraws(np.full(n, -1), np.zeros(n), crash, np.zeros(n, np.bool_), np.zeros(n), again)

    faults = FaultSource(lambda clients, start, tasks: np.ones(len(clients)), befall, silences=True)
    return replace(world_of(fleet), faults=faults)


@law
@given(fleets(), paces(*sorted({*PACES} - {"eager_commits"})), st.sampled_from([2, 7]))
def test_who_does_not_wait_for_ever_ends_though_reports_are_lost_without_a_word(fleet, pace, often):
    policy = replace(pace, if_few="fail").policy()
    plan = toy_plan(policy, len(fleet), stop=Stop(rounds=6, virtual_seconds=1e7))
    events, _ = events_of(plan, losing(fleet, often))
    if not policy.endless:
        assert events[-1].reason == "rounds", "it never reached the horizon"
        assert sum(isinstance(e, ModelCommitted | RoundFailed) for e in events) == 6
    sent = sum(len(e.clients) for e in only(TasksSent, events))
    ended = sum(isinstance(e, TaskArrived | TaskLost) for e in events) + sum(len(e.tasks) for e in only(TasksDropped, events))
    assert ended == sent
