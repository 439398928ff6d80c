"""Eq. (3) of FLHetBench, by hand."""

import numpy as np

from fedfleet.core.cost import seconds_of
from fedfleet.core.records import Cost


def test_transfer_training_and_latency_add_up():
    cost = Cost(np.array([10.0, 0.0]), np.array([1e6, 1e6]), np.array([5e5, 0.0]))
    found = seconds_of(
        cost, np.array([8000.0, 1000.0]), np.array([4000.0, 1.0]), np.array([0.1, 9.0]), np.array([0.25, 0.0])
    )
    # 8e6 bit at 8 Mbit/s, 4e6 bit at 4 Mbit/s, three passes over ten samples of 0.1 s, and the latency.
    assert np.allclose(found, [1.0 + 1.0 + 3.0 + 0.25, 8.0], rtol=1e-15)
    assert found.dtype == np.float64


def test_halving_all_speeds_doubles_the_seconds_exactly():
    cost = Cost(np.array([7.0]), np.array([123457.0]), np.array([9876.0]))
    speeds = np.array([3333.3]), np.array([777.7]), np.array([0.0123]), np.array([0.017])
    slower = speeds[0] / 2, speeds[1] / 2, speeds[2] * 2, speeds[3] * 2
    assert seconds_of(cost, *slower) == 2 * seconds_of(cost, *speeds)
