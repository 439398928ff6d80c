"""Intervals over seeds: Student's, and as honest as they claim."""

import numpy as np
import pytest
from scipy import stats

from fedfleet.measure.seeds import interval95


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
