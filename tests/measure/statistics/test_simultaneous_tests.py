"""The distributions are those of scipy, and of a simulation where scipy has none."""

import numpy as np
import pytest
from scipy import stats

from fedfleet.measure.statistics.simultaneous_tests import dunnett_p, dunnett_quantile, range_p, range_quantile


@pytest.mark.parametrize(("arms", "freedom"), [(2, 1), (3, 2), (3, 8), (6, 10), (12, 40)])
@pytest.mark.parametrize("t", [0.5, 2.0, 5.0])
def test_the_range_is_tukeys(arms, freedom, t):
    assert range_p(t, arms, freedom) == pytest.approx(stats.studentized_range.sf(t * np.sqrt(2), arms, freedom), abs=1e-6)


@pytest.mark.parametrize("level", [0.04, 0.005])
def test_quantiles_are_those_of_the_range(level):
    known = stats.studentized_range.ppf(1 - level, 4, 9) / np.sqrt(2)
    assert range_quantile(level, 4, 9) == pytest.approx(known, rel=1e-6)


def test_two_means_are_students_t():
    for p in (range_p(2.3, 2, 7), dunnett_p(2.3, 1, 7)):
        assert p == pytest.approx(2 * stats.t.sf(2.3, 7), abs=1e-8)


def test_dunnett_is_that_of_scipy():
    rng = np.random.default_rng(1)
    base, *others = (rng.normal(shift, 1, 6) for shift in (0.0, 0.9, 1.5, 0.2))
    known = stats.dunnett(*others, control=base, rng=np.random.default_rng(0))
    assert [dunnett_p(float(t), 3, 20) for t in known.statistic] == pytest.approx(known.pvalue.tolist(), abs=2e-3)
    assert dunnett_p(dunnett_quantile(0.04, 3, 20), 3, 20) == pytest.approx(0.04, abs=1e-9)
