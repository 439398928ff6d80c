"""Classical distances between fleets: zero to oneself, symmetric, bounded, and the textbook values."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.measure.distances import js_distance, ks_distance

samples = st.lists(st.floats(-100, 100), min_size=1, max_size=20).map(np.array)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(samples, samples)
def test_laws_of_distances(a, b):
    for distance, most in ((ks_distance, 1.0), (js_distance, math.sqrt(math.log(2.0)))):
        assert distance(a, a) == pytest.approx(0.0, abs=1e-7)
        assert distance(a, b) == pytest.approx(distance(b, a))
        assert 0.0 <= distance(a, b) <= most + 1e-12


def test_fleets_that_share_nothing_are_as_far_as_can_be():
    a, b = np.array([1.0, 2.0, 3.0]), np.array([10.0, 11.0])
    assert ks_distance(a, b) == 1.0
    assert js_distance(a, b) == pytest.approx(math.sqrt(math.log(2.0)))


def test_by_hand():
    assert ks_distance(np.array([1.0, 2.0, 3.0, 4.0]), np.array([3.0, 4.0])) == 0.5
    assert js_distance(np.full(5, 2.0), np.full(3, 2.0)) == 0.0
