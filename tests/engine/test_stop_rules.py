"""When a run ends, and why."""

import numpy as np
import pytest

from fedfleet.core.events import (
    Evaluated,
    ModelCommitted,
    RoundFailed,
    RunEnded,
    TaskArrived,
    TaskLost,
    TasksDropped,
    TasksSent,
)
from fedfleet.core.parts import Executor
from fedfleet.core.records import Score, Stop
from fedfleet.pace.rounds import readiness
from fedfleet.simulation.simulator import simulate
from fedfleet.testing.toys import opaque_executor
from tests.worlds import even_fleet, events_of, only, toy_plan, world_of


def ended(stop, **fleet):
    world = world_of(even_fleet(6, **fleet), steady=True)
    events, _ = events_of(toy_plan(readiness(3, t_break=2.0), 6, stop=stop), world)
    (end,) = only(RunEnded, events)
    assert events[-1] is end
    return events, end


def test_rounds_count_attempts():
    events, end = ended(Stop(rounds=5))
    assert end.reason == "rounds"
    assert [e.round for e in only(ModelCommitted, events)] == [0, 1, 2, 3, 4]


def test_failed_rounds_count_too():
    events, end = ended(Stop(rounds=5), seconds=float("inf"))
    assert end.reason == "rounds"
    why = "0 of at least 1 reports arrived"
    assert [(e.round, e.reason) for e in only(RoundFailed, events)] == [(r, why) for r in range(5)]
    assert len(only(TaskLost, events)) == 15


def test_commits_count_models_and_failed_rounds_do_not():
    events, end = ended(Stop(rounds=50, commits=3))
    assert (end.reason, len(only(ModelCommitted, events))) == ("commits", 3)
    # A third of the devices cannot do the work: rounds of one client fail until others are picked.
    world = world_of(even_fleet(6, [8.0, float("inf"), 8.0, float("inf"), 8.0, float("inf")]))
    events, _ = events_of(toy_plan(readiness(1, min_clients=1), 6, stop=Stop(rounds=50, commits=4)), world)
    assert events[-1].reason == "commits"
    assert len(only(ModelCommitted, events)) == 4
    assert only(RoundFailed, events)


def test_models_that_were_wanted_are_the_reason_when_rounds_are_up_too():
    assert ended(Stop(rounds=3, commits=3))[1].reason == "commits"
    assert ended(Stop(rounds=3, commits=4))[1].reason == "rounds"


@pytest.mark.parametrize(("updates", "sent"), [(1, 3), (7, 9), (9, 9), (10, 12)])
def test_updates_count_tasks_and_the_round_is_finished(updates, sent):
    events, end = ended(Stop(updates=updates))
    assert end.reason == "updates"
    assert sum(len(e.clients) for e in only(TasksSent, events)) == sent
    assert len(only(TaskArrived, events)) == sent


def test_the_horizon_drops_what_is_running():
    # Rounds take 10 seconds: the third was sent at 22 and would end at 30.
    events, end = ended(Stop(virtual_seconds=25.0))
    assert (end.reason, end.time) == ("virtual_seconds", 25.0)
    assert [e.time for e in only(ModelCommitted, events)] == [10.0, 20.0]
    (dropped,) = only(TasksDropped, events)
    assert (dropped.time, dropped.seconds.tolist()) == (25.0, [3.0, 3.0, 3.0])


def test_the_horizon_is_reached_at_its_very_second():
    events, end = ended(Stop(virtual_seconds=20.0))
    assert (end.reason, end.time) == ("virtual_seconds", 20.0)
    assert [e.time for e in only(ModelCommitted, events)] == [10.0]


def test_the_last_model_is_tried_on_everyone():
    events, _ = ended(Stop(rounds=2))
    evaluations = only(Evaluated, events)
    assert [e.version for e in evaluations] == [0, 1, 2]
    assert [e.clients is not None for e in evaluations] == [False, False, True]


def graded(curve, stop):
    """A run whose n-th evaluation finds curve[n] of 100 right (the last value from there on)."""
    left = list(curve)

    def evaluate(trials):
        return [Score(left.pop(0) if len(left) > 1 else left[0], 100, 0.0) for _ in trials]

    toy, events = opaque_executor(), []
    plan = toy_plan(readiness(3), 6, stop=stop)
    simulate(plan, world_of(even_fleet(6)), Executor("graded", toy.train, evaluate), watch=events.extend)
    return only(RunEnded, events)[0].reason, only(ModelCommitted, events)


@pytest.mark.parametrize(("target", "commits"), [(0.5, 3), (0.51, 4), (0.05, 0)])
def test_a_target_ends_the_run_when_it_is_met(target, commits):
    reason, models = graded([10, 20, 30, 50, 60], Stop(rounds=50, target_accuracy=target))
    assert (reason, len(models)) == ("target_accuracy", commits)


def test_a_target_out_of_reach_ends_by_rounds():
    assert graded([10, 20], Stop(rounds=7, target_accuracy=0.9))[0] == "rounds"


@pytest.mark.parametrize(
    ("curve", "patience", "min_delta", "commits"),
    [
        ([10, 20, 20, 20, 20], 2, 0.0, 3),  # best at 1, then two evaluations without a gain
        ([10, 20, 19, 21, 21, 21], 2, 0.0, 5),  # a late gain starts the count anew
        ([10, 11, 12, 13, 14, 15], 2, 0.05, 2),  # small gains are none
        ([10, 14, 18, 18, 18, 18], 2, 0.05, 4),  # but they add up: 18 is more than 5 above 10
        ([10, 10], 1, 0.0, 1),
    ],
)
def test_patience_with_a_least_gain(curve, patience, min_delta, commits):
    reason, models = graded(curve, Stop(rounds=50, patience=patience, min_delta=min_delta))
    assert (reason, len(models)) == ("patience", commits)


def test_whichever_comes_first():
    assert ended(Stop(rounds=3, updates=6, virtual_seconds=1e6))[1].reason == "updates"
    assert ended(Stop(rounds=2, updates=60, virtual_seconds=1e6))[1].reason == "rounds"
    assert ended(Stop(rounds=3, updates=60, virtual_seconds=5.0))[1].reason == "virtual_seconds"


def test_times_of_the_steady_fleet_are_as_reckoned():
    events, _ = ended(Stop(rounds=3))
    assert np.array_equal([e.time for e in only(ModelCommitted, events)], [10.0, 20.0, 30.0])
