"""Accuracy over time and over clients, by hand."""

import numpy as np
import pytest

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
    assert client_accuracy(LOG[:5]) is None
