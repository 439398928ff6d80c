"""Asks that wait until enough clients are there: the moment, what brings it forward, and what becomes of it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.errors import RunFailed
from fedfleet.core.events import CandidatesSeen, ModelCommitted, RoundFailed, RunEnded, TasksDropped, TasksSent
from fedfleet.core.parts import Policy, Selector
from fedfleet.core.records import NOTHING, Decision, Stop, whole_work
from fedfleet.pace.combinators import overcommit
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.simulation.reachability import earliest_moment
from tests.worlds import (
    Fleet,
    buffered,
    even_fleet,
    events_of,
    fleets,
    kinds_of,
    only,
    paces,
    plain,
    toy_plan,
    world_of,
)

law = settings(deadline=None, derandomize=True, max_examples=120)


def shifted(*ready, period=100.0, seconds=8.0):
    """A fleet of clients that are there in these spans of each period."""
    n = len(ready)
    return Fleet(even_fleet(n).keys, (seconds,) * n, (period,) * n, tuple((span,) for span in ready))


def seen(events):
    return [(e.time, e.roster.clients.tolist()) for e in only(CandidatesSeen, events)]


def test_a_round_begins_when_enough_are_there_and_none_is_burnt():
    fleet = shifted((50.0, 90.0), (60.0, 90.0), (80.0, 90.0))
    plan = toy_plan(readiness(3, t_break=2.0, if_few="wait"), 3, stop=Stop(rounds=2))
    events, _ = events_of(plan, world_of(fleet, steady=True))
    assert seen(events)[0] == (60.0, [0, 1])
    assert not only(RoundFailed, events)
    burning, _ = events_of(toy_plan(readiness(3, t_break=2.0), 3, stop=Stop(rounds=20)), world_of(fleet, steady=True))
    assert len(only(RoundFailed, burning)) == 20


@law
@given(fleets(), paces("readiness", "deadline"))
def test_no_round_fails_for_want_of_clients_and_each_begins_as_soon_as_it_can(fleet, pace):
    pace = replace(pace, if_few="wait")
    policy, world = pace.policy(), world_of(fleet)
    events, _ = events_of(toy_plan(policy, len(fleet), stop=Stop(rounds=5, virtual_seconds=1000.0)), world)
    assert not [e for e in only(RoundFailed, events) if "could be selected" in e.reason]
    asked = pace.t_break
    for event in events:
        if isinstance(event, CandidatesSeen):
            # Nothing runs between two rounds: whoever is online is free, and times are whole seconds.
            counts = {
                t: int(world.states.online(float(t)).sum()) for t in range(math.ceil(asked), math.ceil(event.time))
            }
            assert len(event.roster.clients) >= policy.least
            assert not [t for t, count in counts.items() if count >= policy.least]
        elif isinstance(event, ModelCommitted | RoundFailed):
            asked = event.time + pace.t_break


@law
@given(fleets(), paces(), st.integers(20, 400).map(float))
def test_asking_for_at_least_nobody_changes_nothing(fleet, pace, horizon):
    def with_least(least):
        policy = replace(pace, if_few="fail").policy()

        def decide(book):
            decision = policy.decide(book)
            return decision._replace(at_least=least) if decision.ask else decision

        stop = Stop(rounds=4, virtual_seconds=horizon)
        return [
            plain(e)
            for e in events_of(toy_plan(replace(policy, decide=decide), len(fleet), stop=stop), world_of(fleet))[0]
        ]

    assert with_least(0) == [
        plain(e)
        for e in events_of(
            toy_plan(replace(pace, if_few="fail").policy(), len(fleet), stop=Stop(rounds=4, virtual_seconds=horizon)),
            world_of(fleet),
        )[0]
    ]


def test_if_it_never_happens_the_run_ends_at_its_horizon():
    fleet = shifted((0.0, 10.0), (20.0, 30.0))
    events, _ = events_of(
        toy_plan(readiness(2, if_few="wait"), 2, stop=Stop(rounds=5, virtual_seconds=5000.0)), world_of(fleet)
    )
    assert (events[-1].reason, events[-1].time) == ("virtual_seconds", 5000.0)
    assert kinds_of(events) == ["RunBegan", "Evaluated", "TimerFired", "TimerFired", "Evaluated", "RunEnded"]


def test_a_moment_at_the_horizon_is_too_late():
    fleet = shifted((50.0, 60.0), (50.0, 60.0))
    for horizon, rosters in ((50.0, 0), (51.0, 1)):
        stop = Stop(virtual_seconds=horizon)
        events, _ = events_of(toy_plan(readiness(2, if_few="wait"), 2, stop=stop), world_of(fleet))
        assert len(seen(events)) == rosters


def test_tasks_that_end_bring_the_moment_forward():
    # Client 0 works until 24; without it two are there only at 70.
    fleet = shifted((0.0, 100.0), (10.0, 60.0), (70.0, 100.0), seconds=24.0)
    asked = []

    def decide(book):
        if book.asking:
            return NOTHING
        if book.wanted == 0:
            return Decision(ask=1) if book.now >= 1 else Decision(wake_at=1.0)
        if book.asks == 1 and not book.answered:
            asked.append(book.now)
            return Decision(ask=2, at_least=2)
        if book.asks == 2:
            return Decision(commit=True, drop=0) if book.arrived else NOTHING
        return Decision(wake_at=5.0) if book.now < 5.0 else NOTHING

    events, _ = events_of(toy_plan(Policy("two", decide, 1), 3, stop=Stop(rounds=1)), world_of(fleet, steady=True))
    assert asked == [5.0]
    assert seen(events) == [(1.0, [0]), (25.0, [0, 1])]


def test_tasks_that_are_given_up_bring_it_forward_too():
    fleet = shifted((0.0, 100.0), (0.0, 60.0), seconds=500.0)

    def decide(book):
        if book.wanted == 0:
            return Decision(ask=1) if book.now >= 1 else Decision(wake_at=1.0)
        if book.asks == 1 and not book.asking:
            return Decision(wake_at=5.0) if book.now < 5.0 else Decision(ask=2, at_least=2, wake_at=9.0)
        if book.asking and book.running:
            return Decision(drop=0) if book.now >= 9.0 else Decision(wake_at=9.0)
        return NOTHING

    stop = Stop(rounds=1, virtual_seconds=50.0)
    events, _ = events_of(toy_plan(Policy("gives_up", decide, 1), 2, stop=stop), world_of(fleet, steady=True))
    assert [e.time for e in only(TasksDropped, events)] == [9.0, 50.0]
    assert [time for time, _ in seen(events)] == [1.0, 9.0]


def grows(first, then, **more):
    """Ask for one, at least `first`; at 10 for one more, at least `then`."""

    def decide(book):
        if book.wanted == 0:
            return Decision(ask=1, at_least=first, wake_at=10.0)
        if book.asking and book.wanted == 1:
            return Decision(ask=1, at_least=then, **more) if book.now >= 10.0 else Decision(wake_at=10.0)
        return NOTHING if book.running or book.asking else Decision(commit=True)

    return Policy("grows", decide, 1)


@pytest.mark.parametrize(("first", "then", "moment"), [(2, 0, 60.0), (2, 3, 80.0), (3, 2, 80.0), (2, 2, 60.0)])
def test_an_ask_that_grows_waits_for_the_most_that_was_wanted(first, then, moment):
    fleet = shifted((50.0, 90.0), (60.0, 90.0), (80.0, 90.0))
    events, _ = events_of(toy_plan(grows(first, then), 3, stop=Stop(rounds=1)), world_of(fleet, steady=True))
    assert seen(events)[0][0] == moment
    assert len(only(TasksSent, events)[0].clients) == 2


def test_whoever_is_left_out_is_not_waited_for():
    # Both early ones were asked in this round already, so that two others are there only at 80.
    fleet = shifted((0.0, 90.0), (0.0, 90.0), (40.0, 90.0), (80.0, 90.0), seconds=3.0)

    def decide(book):
        if book.wanted == 0:
            return Decision(ask=2)
        if book.asks == 1 and not book.asking and not book.running:
            return Decision(ask=2, at_least=2, others=True)
        return Decision(commit=True) if book.asks == 2 and not book.running else NOTHING

    events, _ = events_of(toy_plan(Policy("others", decide, 2), 4, stop=Stop(rounds=1)), world_of(fleet, steady=True))
    assert seen(events) == [(0.0, [0, 1]), (80.0, [0, 1, 2, 3])]
    assert [e.clients.tolist() for e in only(TasksSent, events)][1] in ([2, 3], [3, 2])


def test_a_selector_sees_the_moment_at_which_it_picks():
    times = []

    def pick(state, roster, n, draw):
        times.append(roster.stats["compute_seconds"].tolist())
        return whole_work(roster.clients[:n])

    world = world_of(shifted((50.0, 90.0), (60.0, 90.0)))
    by_time = replace(world.devices, seconds=lambda clients, cost, start, tasks: np.full(len(clients), start))
    plan = toy_plan(
        readiness(2, if_few="wait"), 2, choose=Selector("seeing", pick, sees=("compute_seconds",)), stop=Stop(rounds=1)
    )
    events_of(plan, replace(world, devices=by_time))
    assert times[0] == [60.0, 60.0]


def test_overcommitment_waits_for_what_is_needed_and_takes_more_if_they_are_there():
    fleet = shifted((50.0, 90.0), (60.0, 90.0), (60.0, 90.0), (95.0, 99.0))
    plan = toy_plan(overcommit(readiness(2, if_few="wait"), factor=2.0), 4, stop=Stop(rounds=1))
    events, _ = events_of(plan, world_of(fleet, steady=True))
    assert seen(events) == [(60.0, [0, 1, 2])]
    assert len(only(TasksSent, events)[0].clients) == 3


def test_an_asynchronous_policy_waits_while_others_run():
    fleet = shifted((0.0, 100.0), (0.0, 100.0), (30.0, 100.0), seconds=40.0)
    plan = toy_plan(buffered(1, 3, at_least=1), 3, stop=Stop(rounds=4))
    events, _ = events_of(plan, world_of(fleet, steady=True))
    assert [time for time, _ in seen(events)][:3] == [0.0, 30.0, 40.0]
    assert only(RunEnded, events)[0].reason == "rounds"


def test_states_that_do_not_say_when_are_refused_by_a_sentence():
    world = world_of(shifted((50.0, 90.0), (60.0, 90.0)))
    silent = replace(world, states=replace(world.states, earliest=None))
    plan = toy_plan(deadline(2, if_few="wait"), 2)
    with pytest.raises(RunFailed, match=r"policy 'deadline' wants at least 2 clients, but .* `earliest`"):
        events_of(plan, silent)
    assert len(events_of(toy_plan(deadline(2), 2), silent)[0]) > 2, "whoever does not wait needs no such thing"


def test_an_error_of_the_world_names_it():
    world = world_of(shifted((50.0, 90.0), (60.0, 90.0)))
    broken = replace(world, states=replace(world.states, earliest=lambda among, n, start, until: [][n]))
    with pytest.raises(
        RunFailed, match=r"the world, asked at time 20.0 when 2 clients can be reached, failed: IndexError"
    ):
        events_of(toy_plan(readiness(2, if_few="wait"), 2), broken)


def test_the_moment_is_a_function_of_state_and_world():
    world = world_of(shifted((50.0, 90.0), (60.0, 90.0)))
    plan = toy_plan(readiness(2, if_few="wait"), 2)
    _, end = events_of(plan, world)
    state = end.state._replace(at_least=2, book=end.state.book._replace(now=3.0))
    assert earliest_moment(plan, world, state, np.zeros(2, np.bool_)) == 60.0
    assert earliest_moment(plan, world, state, np.array([True, False])) == math.inf
