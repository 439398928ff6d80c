"""The way back through a task, against a slow reference that looks at every single second."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.stages import STAGES
from fedfleet.measure.attribution.causes import Blame, sum_by_cause
from fedfleet.measure.attribution.path_cursor import PathCursor, PathTask
from fedfleet.world.states import interval_states
from tests.measure.attribution.runs import progress_in
from tests.worlds import even_fleet, spans_within, traces_of, world_of

law = settings(deadline=None, derandomize=True, max_examples=120)
periods = st.integers(4, 40).flatmap(lambda p: st.tuples(st.just(p), spans_within(p)))
seconds = st.dictionaries(st.sampled_from(STAGES), st.integers(1, 9).map(float), min_size=1)


def literal(task, ready, period, floor):
    """Second by second: who is ready works on the first stage that is not done; a finished report is delivered at any time."""
    left = {n: task.stages[n] for n in STAGES if n in task.stages}
    late, result = left.pop("delivery", 0.0), {}
    for time in range(int(task.sent), int(task.ended)):
        if time >= task.ended - late:
            cause = "delivery"
        elif any(a <= time % period < b for a, b in ready):
            cause = next(n for n in left if left[n])
            left[cause] -= 1
        else:
            cause = "reachability"
        if time >= floor:
            result[cause] = result.get(cause, 0.0) + 1
    return result


@law
@given(periods, seconds, st.integers(0, 60), st.integers(0, 80))
def test_every_second_is_where_it_was(state, stages, sent, later):
    period, ready = state
    world = world_of(even_fleet(1))
    states = interval_states(traces_of((ready,), (float(period),)))
    work = sum(v for n, v in stages.items() if n != "delivery")
    done = float(states.finish(np.array([0]), float(sent), np.array([work]))[0])
    task = PathTask(0, float(sent), done + stages.get("delivery", 0.0), stages)
    floor = min(float(sent + later), task.ended)
    way = PathCursor(task.ended, floor, Blame(), progress_in(type(world)(world.keys, world.devices, states, world.data)))
    way.walk_task(task)
    assert sum_by_cause(way.parts) == pytest.approx(sum_by_cause(literal(task, ready, period, floor).items()))
    assert way.at == max(floor, task.sent)
    assert way.cutting == ("none" if floor <= sent or floor >= done else "world")


def test_what_nobody_measured_is_unknown_and_not_out_of_reach():
    way = PathCursor(100.0, 0.0, Blame())
    way.walk_task(PathTask(3, 40.0, 100.0, {"compute": 20.0, "upload": np.nan}))
    assert way.parts == [("compute", 20.0), ("unknown", 40.0)] and way.at == 40.0
    assert way.blame.seconds == {"compute": {3: 20.0}, "unknown": {3: 40.0}}
    way.walk_task(PathTask(4, 10.0, 40.0, None))
    assert way.parts[2:] == [("unknown", 30.0)]


def test_without_a_world_a_task_is_divided_evenly():
    way = PathCursor(100.0, 70.0, Blame())
    way.walk_task(PathTask(0, 40.0, 100.0, {"download": 20.0, "compute": 20.0}))
    # Of 60 s half lie in the round, so that the last half of its 40 s of work does: 20 s of computing, 10 s away.
    assert way.parts == [("compute", 20.0), ("reachability", 10.0)] and way.cutting == "evenly"


def test_roundings_are_no_waiting():
    for k in range(50):
        sent, stages = 1e8 + 0.1 * k, {"compute": 0.3, "upload": 0.4 + 0.01 * k}
        ended = sent + sum(stages.values())
        way = PathCursor(ended, 0.0, Blame())
        way.walk_task(PathTask(0, sent, ended, stages))
        assert [cause for cause, _ in way.parts] == ["upload", "compute"] and way.at == sent


def test_claims_beyond_the_time_that_passed_are_cut():
    way = PathCursor(10.0, 5.0, Blame())
    way.walk_task(PathTask(0, 5.0, 10.0, {"download": 3.0, "compute": 4.0}))
    assert way.parts == [("compute", 4.0), ("download", 1.0)]


def test_nothing_goes_back_beyond_the_floor_or_forward():
    way = PathCursor(10.0, 4.0, Blame())
    way.back_to(12.0, "pause")
    assert way.parts == []
    way.back_to(1.0, "pause", (1, 2))
    assert way.parts == [("pause", 6.0)] and way.blame.seconds == {"pause": {1: 3.0, 2: 3.0}}
