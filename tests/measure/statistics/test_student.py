"""Student's t, against SciPy's own distribution."""

import sys

import pytest
from scipy.stats import t

from fedfleet.core.errors import BadInput
from fedfleet.measure.statistics.student import quantile, two_sided_p


@pytest.mark.parametrize("freedom", [1, 2, 4, 9, 30, 1000])
def test_points_and_tails_are_students(freedom):
    assert quantile(freedom) == pytest.approx(t.ppf(0.975, freedom), rel=1e-9)
    for value in (0.0, 0.3, -2.0, 12.0):
        assert two_sided_p(value, freedom) == pytest.approx(2 * t.sf(abs(value), freedom), rel=1e-9)


def test_without_scipy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    with pytest.raises(BadInput, match=r"fedfleet\[train\]"):
        quantile(3)
