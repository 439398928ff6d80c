"""Accuracy over time and over clients, by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.events import Evaluated
from fedfleet.core.records import ClientScores
from fedfleet.measure.learning import (
    client_accuracy,
    convergence_time,
    final_accuracy,
    learning_curve,
    time_to_accuracy,
)
from tests.measure.journals import LOG


def test_learning():
    curve = learning_curve(LOG)
    assert curve.accuracy.tolist() == [0.1, 0.5, 0.9, 0.8]
    assert curve.seconds.tolist() == [0.0, 50.0, 120.0, 150.0]
    assert final_accuracy(LOG) == 0.8
    assert time_to_accuracy(LOG, 0.5) == 50.0
    assert time_to_accuracy(LOG, 0.95) is None
    assert convergence_time(LOG) == 120.0


def test_clients():
    own = client_accuracy(LOG)
    shares = np.array([0.5, 0.0, 0.75])
    assert own.mean == pytest.approx(8 / 16)
    assert own.bottom10 == pytest.approx(np.percentile(shares, 10))
    assert own.std == pytest.approx(shares.std())
    assert own.worst10_mean == 0.0, "a tenth of three clients, rounded up, is one"
    assert client_accuracy(LOG[:5]) is None


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(9, 12)), min_size=1, max_size=60))
def test_the_worst_tenth_lies_below_its_edge(scores):
    correct, total = np.array(scores).T
    own = client_accuracy([Evaluated(0.0, 1, 0, 1, 0.0, ClientScores(np.arange(len(total)), correct, total))])
    worst = sorted(correct / total)[: math.ceil(len(total) / 10)]
    assert own.worst10_mean == pytest.approx(sum(worst) / len(worst))
    assert min(worst) <= own.worst10_mean + 1e-12 and own.worst10_mean <= max(worst) + 1e-12
    if len(total) % 10 == 0:
        assert own.worst10_mean <= own.bottom10 + 1e-12
