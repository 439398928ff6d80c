"""Means with Student's interval."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import t

from fedfleet.core.errors import BadInput
from fedfleet.measure.statistics.means import interval95, mean_of, quantile, two_sided_p


@pytest.mark.parametrize("freedom", [1, 2, 4, 9, 30, 1000])
def test_points_and_tails_are_students(freedom):
    assert quantile(freedom) == pytest.approx(t.ppf(0.975, freedom), rel=1e-9)
    for value in (0.0, 0.3, -2.0, 12.0):
        assert two_sided_p(value, freedom) == pytest.approx(2 * t.sf(abs(value), freedom), rel=1e-9)


def test_without_scipy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    with pytest.raises(BadInput, match=r"fedfleet\[train\]"):
        quantile(3)


VALUES = st.lists(st.integers(-1000, 1000).map(lambda v: v / 8), min_size=2, max_size=12)


@given(VALUES)
def test_the_interval_is_scipys(values):
    result = mean_of(values)
    error = stats.sem(values)
    low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), error) if error else [np.mean(values)] * 2
    assert (result.value, result.low, result.high) == pytest.approx((np.mean(values), low, high), abs=1e-6, rel=1e-6)
    assert result.sd == pytest.approx(np.std(values, ddof=1)) and result.n == len(values)


@given(VALUES, st.integers(-50, 50), st.sampled_from([0.25, 2.0, 8.0]))
def test_shifted_and_scaled_values_shift_and_scale_the_interval(values, shift, scale):
    one, other = mean_of(values), mean_of([scale * v + shift for v in values])
    assert other.low == pytest.approx(scale * one.low + shift, abs=1e-6)
    assert other.high == pytest.approx(scale * one.high + shift, abs=1e-6)
    assert other.sd == pytest.approx(scale * one.sd, abs=1e-6)


def test_of_one_value_nothing_is_known_but_itself():
    result = mean_of([0.7], least=0.0, most=1.0)
    assert (result.value, result.sd, result.low, result.high, result.n) == (0.7, None, None, None, 1)


def test_an_interval_stays_within_what_is_possible():
    result = mean_of([0.1, 0.9], least=0.0, most=1.0)
    assert (result.low, result.high) == (0.0, 1.0)


@pytest.mark.parametrize(("values", "word"), [([], "none"), ([1.0, float("nan")], "nan"), ([float("inf")], "inf")])
def test_what_has_no_mean_is_refused(values, word):
    with pytest.raises(BadInput, match=word):
        mean_of(values)


@pytest.mark.parametrize("n", [2, 3, 10, 400])
def test_intervals_are_students(n):
    values = np.random.default_rng(n).normal(5.0, 2.0, n)
    assert interval95(values) == pytest.approx(stats.t.interval(0.95, n - 1, values.mean(), stats.sem(values)))


def test_one_value_has_no_interval_and_equal_ones_have_an_empty_one():
    assert interval95(np.array([3.0])) is None
    assert interval95(np.full(4, 3.0)) == (3.0, 3.0)


def test_nineteen_of_twenty_intervals_of_three_seeds_hold_the_mean():
    result = [interval95(x) for x in np.random.default_rng(0).normal(1.0, 1.0, (4000, 3))]
    assert np.mean([low <= 1.0 <= high for low, high in result]) == pytest.approx(0.95, abs=0.01)
