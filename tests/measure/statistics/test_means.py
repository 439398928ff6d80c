"""Means with Student's interval."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedfleet.core.errors import BadInput
from fedfleet.measure.statistics.means import mean_of

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
