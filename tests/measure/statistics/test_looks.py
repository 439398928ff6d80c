"""Levels of looks add up to the error that is allowed; seeds that decide do decide."""

import numpy as np
import pytest
from scipy import stats

from fedfleet.measure.statistics.looks import ERROR, level_of_look, power, seeds_to_decide


def quantile(level, freedom):
    return float(stats.t.isf(level / 2, freedom))


def test_all_looks_together_err_with_five_percent():
    levels = [level_of_look(i) for i in range(1, 60)]
    assert sum(levels) == pytest.approx(ERROR) and levels == sorted(levels, reverse=True)


def test_power_is_that_of_a_simulation():
    rng = np.random.default_rng(0)
    gaps = 1.0 + np.sqrt(2) * rng.normal(size=(20_000, 12))
    found = (gaps.mean(1) / (gaps.std(1, ddof=1) / np.sqrt(12)) > quantile(0.05, 11)).mean()
    assert power(1.0, 1.0, 12, 2, quantile(0.05, 11)) == pytest.approx(found, abs=0.01)


@pytest.mark.parametrize(("arms", "difference"), [(2, 1.0), (3, 0.5), (6, 2.0)])
def test_the_fewest_seeds_that_decide(arms, difference):
    seeds = seeds_to_decide(difference, 1.0, 3, arms, 0.005, quantile)
    powers = [power(difference, 1.0, n, arms, quantile(0.005, (arms - 1) * (n - 1))) for n in (seeds - 1, seeds)]
    assert powers[1] >= 0.8 and (powers[0] < 0.8 or seeds == 4)


def test_what_no_study_decides():
    assert seeds_to_decide(0.01, 1.0, 3, 3, 0.005, quantile) is None
    assert seeds_to_decide(0.0, 1.0, 3, 3, 0.005, quantile) is None
    assert seeds_to_decide(-2.0, 1.0, 3, 3, 0.005, quantile) == seeds_to_decide(2.0, 1.0, 3, 3, 0.005, quantile)
