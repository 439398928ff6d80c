"""The curve of a run as lists, and the times at which it reached targets."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.events import Evaluated, ModelCommitted, RoundFailed, TasksSpent
from fedfleet.core.records import Tally
from fedfleet.measure.accuracy import learning_curve, time_to_accuracy
from fedfleet.measure.curve import TARGETS, curve_table, thin_points, times_to
from tests.measure.journals import LOG


def test_by_hand():
    table = curve_table(LOG)
    assert table["seconds"] == [0.0, 50.0, 120.0, 150.0] and table["accuracy"] == [0.1, 0.5, 0.9, 0.8]
    assert table["commits"] == [0, 1, 2, 3] and table["rounds"] == [0, 1, 3, 4], "the second of four rounds failed"
    assert table["bytes"] is None and "unseen" not in table, "this journal counts no bytes and holds nobody out"


def test_bytes_are_those_of_rounds_that_closed():
    spent = TasksSpent(
        5.0, np.array([0]), np.array([0]), {"bytes_down": np.array([70.0]), "bytes_up": np.array([30.0])}
    )
    log = [Evaluated(0.0, 0, 1, 10, 1.0), spent, Evaluated(6.0, 1, 2, 10, 1.0)]
    assert curve_table(log)["bytes"] == [0.0, 100.0]


def test_unseen_people_have_a_column_of_their_own():
    log = [Evaluated(0.0, 0, 1, 10, 1.0, None, Tally(1, 4)), Evaluated(6.0, 1, 2, 10, math.nan, None, Tally(3, 4))]
    table = curve_table(log)
    assert table["unseen"] == [0.25, 0.75] and table["loss"] == [1.0, None]
    assert json.loads(json.dumps(table, allow_nan=False)) == table


points = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20), st.booleans()), max_size=60)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(points, st.integers(2, 9))
def test_the_table_tells_what_the_journal_does(made, most):
    log, time, version = [], 0.0, 0
    for i, (wait, correct, committed) in enumerate(made):
        time, version = time + wait, version + committed
        log.append(ModelCommitted(time, i, version, "", 1) if committed else RoundFailed(time, i, "no"))
        log.append(Evaluated(time, version, correct, 20, 0.5))
    whole, part = curve_table(log), curve_table(log, most)
    assert whole["rounds"] == list(range(1, len(made) + 1))
    assert len(part["seconds"]) == min(most, len(made))
    if made:
        assert part["accuracy"][0] == whole["accuracy"][0] and part["accuracy"][-1] == whole["accuracy"][-1]
    result = times_to(learning_curve(log))
    assert list(result.values()) == [time_to_accuracy(log, target) for target in TARGETS]
    reached = [math.inf if t is None else t for t in result.values()]
    assert reached == sorted(reached), "a higher target is never reached earlier"


@pytest.mark.parametrize(("n", "most"), [(0, 5), (5, 5), (6, 5), (5000, 2000)])
def test_points_are_left_out_evenly(n, most):
    kept = thin_points(n, most)
    assert len(kept) == min(n, most) == len(set(kept.tolist()))
    assert n <= most or (kept[0] == 0 and kept[-1] == n - 1 and np.ptp(np.diff(kept)) <= 1)


def test_targets_are_named_as_people_write_them():
    assert list(times_to(learning_curve([])))[::6] == ["0.05", "0.35", "0.65", "0.95"]
    assert set(times_to(learning_curve([])).values()) == {None}
