"""Semi-asynchronous pacing: models at fixed times, of whatever came, with everybody at work in between."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.errors import BadInput
from fedfleet.core.events import ModelCommitted, RoundFailed, TaskArrived, TaskLost, TasksDropped, TasksSent
from fedfleet.core.records import Book, Decision, Stop
from fedfleet.measure.participation import staleness_histogram
from fedfleet.measure.tasks import task_table
from fedfleet.pace.semi_async import semi_async
from tests.worlds import even_fleet, events_of, fleets, only, toy_plan, world_of

law = settings(deadline=None, derandomize=True, max_examples=40)


def run(policy, fleet, *, rounds=8, horizon=1e5, steady=False):
    plan = toy_plan(policy, len(fleet), stop=Stop(rounds=rounds, virtual_seconds=horizon))
    return events_of(plan, world_of(fleet, steady=steady))[0]


def test_a_model_is_made_every_period_of_what_has_arrived():
    # Everyone needs 4 s: sent at 1, 5, 9, ..; three arrive by 10 twice each, and so on.
    events = run(semi_async(10.0, concurrency=3), even_fleet(9, 4.0), rounds=4, steady=True)
    commits = only(ModelCommitted, events)
    assert [e.time for e in commits] == [10.0, 20.0, 30.0, 40.0]
    arrived = [e.time for e in only(TaskArrived, events)]
    assert [e.folded for e in commits] == [sum(t - 10.0 < a <= t for a in arrived) for t in (10.0, 20.0, 30.0, 40.0)]
    assert commits[0].folded == 6


def test_a_report_that_comes_with_the_tick_is_in():
    events = run(semi_async(9.0, concurrency=2), even_fleet(4, 8.0), rounds=1, steady=True)
    assert [(e.time, e.folded) for e in only(ModelCommitted, events)] == [(9.0, 2)]


def test_a_period_in_which_nothing_came_fails_and_nobody_is_given_up_for_it():
    events = run(semi_async(10.0, concurrency=2), even_fleet(4, 25.0), rounds=3, steady=True)
    assert [(e.time, e.reason) for e in only(RoundFailed, events)] == [
        (10.0, "nothing arrived in a whole period"),
        (20.0, "nothing arrived in a whole period"),
    ]
    assert [(e.time, e.folded) for e in only(ModelCommitted, events)] == [(30.0, 2)]


def test_silent_clients_do_not_hold_their_places_for_ever():
    policy = semi_async(10.0, 1, concurrency=2)
    events = run(policy, even_fleet(8, [2.0, 2.0] + [1e9] * 6), rounds=40, steady=True)
    ages = np.concatenate([e.seconds for e in only(TasksDropped, events)])
    assert len(ages) > 4 and ages.max() <= policy.patience == 20.0 * 9 / 8 + 1.0
    assert {c for e in only(TasksSent, events) for c in e.clients.tolist()} == set(range(8)), "everyone had a turn"


@law
@given(fleets(), st.integers(1, 40), st.integers(0, 3), st.integers(1, 4))
def test_it_keeps_to_its_numbers(fleet, period, max_staleness, concurrency):
    events = run(semi_async(float(period), max_staleness, concurrency=concurrency), fleet)
    running = 0
    for event in events:
        match event:
            case TasksSent():
                running += len(event.clients)
                assert running <= concurrency
            case TaskArrived() | TaskLost():
                running -= 1
            case TasksDropped():
                running -= len(event.tasks)
    closed = [e.time for e in events if isinstance(e, ModelCommitted | RoundFailed)]
    assert closed == [period * (i + 1.0) for i in range(8)], "one round a period, whatever happens"
    if only(ModelCommitted, events):
        assert len(staleness_histogram(task_table(events))) <= max_staleness + 1


def test_by_example():
    policy = semi_async(60.0, 3, concurrency=4, refill=5.0)
    assert policy.decide(Book(now=1.0, kept=policy.initial)) == Decision(wake_at=5.0)
    assert policy.decide(Book(now=5.0, kept=policy.initial)) == Decision(ask=4, wake_at=60.0)
    full = Book(now=60.0, running=2, arrived=2, kept=(5.0, 5.0, 0.0))
    assert policy.decide(full)[:4] == (0, None, 3, True)
    assert (policy.rounds, policy.endless, policy.key) == (False, False, "concurrency")
    with pytest.raises(BadInput, match="batch: 5 places are never free when 4 tasks run"):
        semi_async(concurrency=4, batch=5)
