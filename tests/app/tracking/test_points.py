"""Points follow from events, whole or in pieces."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.app.tracking.points import Point, follower
from fedfleet.core.events import Evaluated, ModelCommitted, RoundFailed, TaskArrived, TasksSent
from fedfleet.core.records import Tally

ONE = np.ones(2)
SENT = TasksSent(0.0, 0, 0, 0, np.arange(2), np.arange(2), ONE, ONE, 100.0 * ONE)
EVENTS = [
    Evaluated(0.0, 0, 1, 10, 2.5),
    SENT,
    TaskArrived(5.0, 0, 0, 5.0, 70.0),
    ModelCommitted(9.0, 0, 1, "a", 1, loss=0.5),
    Evaluated(9.0, 1, 5, 10, 1.5, unseen=Tally(1, 4)),
    RoundFailed(20.0, 1, "too few"),
    ModelCommitted(25.0, 2, 2, "b", 3),
]


def test_rounds_and_evaluations_become_points():
    first, one, tried, failed, last = follower()(EVENTS)
    assert first == Point("evaluated", 0, 0.0, {"accuracy": 0.1, "loss": 2.5})
    assert one.values == {
        "round_seconds": 9.0,
        "bytes_down": 200.0,
        "bytes_up": 70.0,
        "reports": 1.0,
        "train_loss": 0.5,
    }
    assert tried.round == 1 and tried.values["accuracy_unseen"] == 0.25
    assert failed.what == "round failed" and failed.values["round_seconds"] == 11.0
    assert last.round == 3 and last.values["bytes_down"] == 0.0 and "train_loss" not in last.values


@given(st.lists(st.integers(1, 4), max_size=7))
def test_it_does_not_matter_in_which_batches_events_come(sizes):
    follow, left, result = follower(), list(EVENTS), []
    for size in sizes:
        result += follow(left[:size])
        del left[:size]
    assert [*result, *follow(left)] == list(follower()(EVENTS))


def test_an_evaluation_without_samples_is_no_point():
    assert list(follower()([Evaluated(0.0, 0, 0, 0, float("nan"))])) == pytest.approx([])


def test_measures_of_an_evaluation_are_written_too():
    measures = {"rmse": 2.5, "balanced": 0.75, "loss": 9.0}
    (point,) = follower()([Evaluated(0.0, 0, 5, 10, 1.5, measures=measures)])
    assert point.values == {"accuracy": 0.5, "loss": 1.5, "rmse": 2.5, "balanced": 0.75, "own.loss": 9.0}
