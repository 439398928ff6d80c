"""How uneven a device is: convexity, gradients, and the least that whole samples allow."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.shuffle.divergence import EMPTY, imbalance, least_imbalance, perspective

holdings = st.lists(st.floats(0.01, 50.0), min_size=4, max_size=4)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(holdings, holdings, st.floats(0.0, 1.0))
def test_imbalance_is_quasi_convex_and_its_perspective_convex(x, y, share):
    x, y = np.array(x)[:, None], np.array(y)[:, None]
    between = share * x + (1 - share) * y
    assert imbalance(between)[0] <= max(imbalance(x)[0], imbalance(y)[0]) + 1e-12
    assert perspective(between)[0] <= share * perspective(x)[0] + (1 - share) * perspective(y)[0] + 1e-9
    assert 0.0 <= imbalance(x)[0] <= math.log(2.0)


@settings(deadline=None, derandomize=True, max_examples=50)
@given(holdings, holdings)
def test_the_gradient_of_the_perspective(x, y):
    x, y = np.array(x)[:, None], np.array(y)[:, None]
    value, slope = perspective(x)
    for i in range(4):
        step = np.zeros((4, 1))
        step[i] = 1e-5 * x[i]
        numeric = (perspective(x + step)[0] - perspective(x - step)[0]) / (2 * step[i])
        assert numeric[0] == pytest.approx(slope[i, 0], abs=1e-6)
    assert (slope * x).sum() == pytest.approx(value[0], abs=1e-9)  # grows in proportion
    assert (slope * y).sum() <= perspective(y)[0] + 1e-9  # and so is a floor everywhere


def test_least_imbalance_is_the_least_of_all_whole_choices():
    totals = np.array([2, 1, 3])
    best = least_imbalance(totals)
    seen = np.full(7, np.inf)
    for i in range(3):
        for j in range(2):
            for k in range(4):
                n = i + j + k
                seen[n] = min(seen[n], imbalance(np.array([[i], [j], [k]], float))[0])
    np.testing.assert_allclose(best, seen, atol=1e-12)
    assert best[0] == EMPTY


def test_a_short_list_is_the_beginning_of_the_long_one():
    totals = np.array([2, 700, 3, 40])
    np.testing.assert_array_equal(least_imbalance(totals, 50), least_imbalance(totals)[:51])
    np.testing.assert_array_equal(least_imbalance(totals, 10_000), least_imbalance(totals))
    assert len(least_imbalance(np.array([10**12, 10**12]), 100)) == 101
