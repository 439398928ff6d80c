"""Looking at the model after so many rounds, or at moments of virtual time, changes nothing of a run but its curve."""

import heapq
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.commands import Account, Evaluate, FindCandidates, Finish, Gather, Send, WakeAt
from fedfleet.core.errors import RunFailed
from fedfleet.core.events import (
    CandidatesSeen,
    Evaluated,
    ModelCommitted,
    NewModel,
    ReportsGathered,
    RoundFailed,
    TaskArrived,
    TasksSent,
    TasksSpent,
    TimerFired,
)
from fedfleet.core.parts import Policy
from fedfleet.core.records import Decision, Roster, Score, Stop
from fedfleet.core.rng import client_keys
from fedfleet.engine.coordinator import begin, step
from fedfleet.engine.state import Phase
from fedfleet.engine.stop_rules import next_evaluation_time
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.simulation.simulator import simulate
from fedfleet.testing.toys import opaque_executor
from tests.worlds import buffered, even_fleet, events_of, fleets, only, paces, plain, toy_plan, world_of

pytestmark = pytest.mark.slow

HORIZON = 300.0
POLICIES = st.one_of(
    paces().map(lambda pace: pace.policy()),
    st.sampled_from([buffered(2, 3, pause=11.0), buffered(1, 4, pause=11.0, at_least=2)]),
)


def run_of(fleet, policy, **stop):
    asked = Stop(**{"rounds": 4, "virtual_seconds": HORIZON, **stop})
    return events_of(toy_plan(policy, len(fleet), stop=asked), world_of(fleet))[0]


def without_curve(events):
    """Everything that happened or was decided, by kind: looks may change the order within an instant."""
    result = {}
    for event in events:
        if not isinstance(event, Evaluated | TimerFired):
            result.setdefault(type(event), []).append(plain(event))
    return result


@settings(deadline=None, derandomize=True, max_examples=60)
@given(fleets(max_clients=5), POLICIES, st.integers(1, 3), st.sampled_from([None, 3.0, 16.0, 20.0, 77.7]))
def test_looking_changes_nothing_but_the_curve(fleet, policy, attempts, seconds):
    plainly = run_of(fleet, policy)
    often = run_of(fleet, policy, evaluate_attempts=attempts, evaluate_seconds=seconds)
    assert without_curve(often) == without_curve(plainly)
    points = {(e.time, e.version) for e in only(Evaluated, often)}
    assert points >= {(e.time, e.version) for e in only(Evaluated, plainly)}


@settings(deadline=None, derandomize=True, max_examples=40)
@given(fleets(max_clients=5), POLICIES, st.sampled_from([3.0, 16.0, 20.0, 77.7]))
def test_by_virtual_time_there_is_a_point_at_every_multiple(fleet, policy, seconds):
    events = run_of(fleet, policy, evaluate_seconds=seconds)
    times = {e.time for e in only(Evaluated, events)}
    last = events[-1].time
    wanted = [k * seconds for k in range(int(HORIZON / seconds) + 1) if k * seconds < last]
    assert {*wanted} <= times
    versions = [e.version for e in only(Evaluated, events)]
    assert versions == sorted(versions)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(fleets(max_clients=5), POLICIES, st.integers(1, 3))
def test_by_attempts_there_is_a_point_after_every_so_many_rounds(fleet, policy, attempts):
    events = run_of(fleet, policy, evaluate_every=1000, evaluate_attempts=attempts, rounds=6)
    rounds, at = 0, {0: 1}
    for event in events:
        rounds += isinstance(event, ModelCommitted | RoundFailed)
        if isinstance(event, Evaluated):
            at[rounds] = at.get(rounds, 0) + 1
    assert {*range(0, rounds, attempts)} <= {*at}
    assert all(n % attempts == 0 or n == rounds for n in at), "other rounds have no point"


def graded(plan, fleet):
    """The events of a run whose models get one more answer right whenever one is tried, and how often that was."""
    inner, tried, events = opaque_executor(), [], []

    def evaluate(trials):
        tried.append(len(trials))
        return [Score(min(len(tried), 10), 10, 0.5)] * len(trials)

    counting = replace(inner, evaluate=evaluate)
    simulate(plan, world_of(fleet, steady=True), counting, watch=events.extend)
    return events, tried


def test_a_model_that_did_not_change_is_not_tried_again():
    stop = Stop(rounds=5, evaluate_attempts=1, evaluate_seconds=7.0)
    events, tried = graded(toy_plan(deadline(4, seconds=10.0), 4, stop=stop), even_fleet(4, 500.0))
    assert len(only(RoundFailed, events)) == 5 and not only(ModelCommitted, events)
    *points, last = only(Evaluated, events)
    assert len(points) > 20 and {(e.correct, e.total, e.loss) for e in points} == {(1, 10, 0.5)}
    assert last.correct > 1 and sum(tried) <= 2 + 4, "tried are the first model, and the last with every client's data"


def test_the_same_model_again_is_no_lack_of_progress():
    # Patience of 3 counts models: failed rounds, each with its point, do not end the run.
    stop = Stop(rounds=6, patience=3, evaluate_attempts=1)
    events, _ = graded(toy_plan(deadline(4, seconds=10.0), 4, stop=stop), even_fleet(4, 500.0))
    assert events[-1].reason == "rounds" and len(only(RoundFailed, events)) == 6


def test_a_look_does_not_wake_the_policy():
    consulted = []

    def decide(book):
        consulted.append(book.now)
        return inner.decide(book)

    inner = readiness(2)
    for seconds in (None, 1.0):
        consulted.append(None)
        policy = Policy("heard", decide, inner.cohort, inner.initial)
        events_of(toy_plan(policy, 4, stop=Stop(rounds=2, evaluate_seconds=seconds)), world_of(even_fleet(4)))
    half = consulted.index(None, 1)
    assert consulted[1:half] == consulted[half + 1 :] != []


def test_a_target_may_be_met_in_the_middle_of_a_round():
    stop = Stop(rounds=50, evaluate_every=1000, evaluate_seconds=5.0, target_accuracy=0.3)
    events, _ = graded(toy_plan(readiness(2), 4, stop=stop), even_fleet(4))
    points = only(Evaluated, events)
    assert events[-1].reason == "target_accuracy" and points[-2].correct == 3
    assert points[-2].time == events[-1].time and points[-2].time % 5.0 == 0.0
    assert all(a.time <= b.time for a, b in pairwise(points))


@pytest.mark.parametrize(
    ("every", "last", "then"),
    [
        (5.0, 0.0, 5.0),
        (0.1, 0.30000000000000004, 0.4),
        (0.1, 0.7, 0.8),
        (5.0, 296.0, None),
        (5.0, 13.0, 15.0),
        (5.0, 10.1, 15.0),
    ],
)
def test_the_next_look_is_a_multiple_before_the_horizon(every, last, then):
    plan = toy_plan(readiness(2), 4, stop=Stop(virtual_seconds=HORIZON, evaluate_seconds=every))
    assert next_evaluation_time(plan, last) == (None if then is None else pytest.approx(then))


def test_a_policy_that_abandons_without_end_is_noticed_with_looks_too():
    policy = Policy("stubborn", lambda book: Decision(abandon="no mood"), 2)
    with pytest.raises(RunFailed, match="stubborn"):
        events_of(toy_plan(policy, 4, stop=Stop(rounds=10**6, evaluate_attempts=1)), world_of(even_fleet(4)))


def on_a_real_clock(plan, seconds, judging, gathering):
    """The events of a run in which judging and gathering take time, as they do on a server; everybody is always there."""
    state, outcomes, commands = begin(plan)
    events, heap, timer, asked, n = [*outcomes], [], None, False, 0
    ids = np.arange(plan.clients)
    for _ in range(5000):
        for command in commands:
            n, now = n + 1, state.book.now
            match command:
                case WakeAt():
                    timer = command.time
                case FindCandidates():
                    asked = True
                case Send():
                    for i, client in enumerate(command.wave.assignments.clients.tolist()):
                        took = seconds[client]
                        fact = TaskArrived(now + took, command.wave.first + i, client, took, 0.0)
                        heapq.heappush(heap, (fact.time, n, i, fact))
                case Evaluate():
                    took = 0.0 if command.known else judging
                    heapq.heappush(heap, (now + took, n, 0, Evaluated(now + took, command.version, 1, 2, 0.5)))
                case Gather():
                    fact = ReportsGathered(now + gathering, None, np.array(command.tasks), {}, made=NewModel(state.server, "m"))
                    heapq.heappush(heap, (fact.time, n, 0, fact))
                case Account():
                    who = [w.assignments.clients[t - w.first] for t, w in zip(command.tasks, command.waves, strict=True)]
                    fact = TasksSpent(now, np.array(command.tasks), np.array(who), {})
                    heapq.heappush(heap, (now, n, 0, fact))
                case Finish():
                    return events
        if asked and state.phase is Phase.OPEN and not (heap and heap[0][0] <= state.book.now):
            busy = [w.assignments.clients[t - w.first] for t, w in state.running.items()]
            idle, asked = np.setdiff1d(ids, busy), False
            fact = CandidatesSeen(state.book.now, Roster(idle, client_keys(plan.clients)[idle], np.ones(len(idle), np.int64)))
        elif timer is not None and not (heap and heap[0][0] <= timer):
            fact, timer = TimerFired(max(timer, state.book.now)), None
        else:
            assert heap, f"the run waits for ever at {state.book.now} in phase {state.phase}"
            fact = heapq.heappop(heap)[-1]
            if isinstance(fact, TaskArrived) and fact.task not in state.running:
                commands = ()
                continue  # it was given up
            fact = fact if fact.time >= state.book.now else replace(fact, time=state.book.now)
        state, outcomes, commands = step(plan, state, fact)
        events += [fact, *outcomes]
    raise AssertionError("the run does not end")


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    st.lists(st.sampled_from([1.0, 3.0, 8.0, 10.0]), min_size=4, max_size=6),
    st.sampled_from([
        (readiness(2), True), (readiness(3, t_break=2.0), True), (deadline(3, seconds=7.0), False), (buffered(2, 3), False),
    ]),
    st.sampled_from([0.4, 1.0, 3.0]), st.sampled_from([0.0, 0.7, 5.0, 11.0]), st.sampled_from([0.0, 2.5]), st.integers(1, 3),
)  # fmt: skip
def test_where_judging_takes_time_looks_change_no_decision_and_nobody_waits_for_ever(
    seconds, policy, every, judging, gathering, commits
):
    def run(**stop):
        plan = toy_plan(policy[0], len(seconds), stop=Stop(rounds=4, evaluate_every=commits, **stop))
        return on_a_real_clock(plan, seconds, judging, gathering)

    plainly, often = run(), run(evaluate_seconds=every)
    asked = [[e.clients.tolist() for e in only(TasksSent, events)] for events in (plainly, often)]
    made = [[(e.round, e.version) for e in only(ModelCommitted, events)] for events in (plainly, often)]
    assert not policy[1] or (asked[0] == asked[1] and made[0] == made[1]), "who waits for all decides by no clock"
    moments = [e.time for e in only(Evaluated, often)]
    slowest = every + judging + max(seconds) * (judging + gathering > 0) + gathering + 1e-6
    assert all(b - a <= slowest + judging for a, b in pairwise(moments)), "looks go on"
    assert len(only(TimerFired, often)) <= 4 * (often[-1].time / every) + 40, "no wake-up comes again and again"
