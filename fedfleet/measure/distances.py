"""The classical ways to compare fleets, to set beside the Monte-Carlo metrics: KS and JS distance."""

from __future__ import annotations

import math

import numpy as np

from fedfleet.core.records import Floats


def ks_distance(a: Floats, b: Floats) -> float:
    """The largest gap between two empirical distribution functions (Kolmogorov and Smirnov).

    >>> ks_distance(np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    0.0
    """
    points = np.concatenate([a, b])
    below_a = np.searchsorted(np.sort(a), points, side="right") / len(a)
    below_b = np.searchsorted(np.sort(b), points, side="right") / len(b)
    return float(np.abs(below_a - below_b).max())


def js_distance(a: Floats, b: Floats, *, bins: int = 50) -> float:
    """The Jensen-Shannon distance: root of the divergence (natural logarithm) of histograms over the common range."""
    low, high = float(min(a.min(), b.min())), float(max(a.max(), b.max()))
    if high <= low:
        return 0.0
    p = np.histogram(a, bins, (low, high))[0] / len(a)
    q = np.histogram(b, bins, (low, high))[0] / len(b)
    middle = (p + q) / 2

    def divergence(x: Floats) -> float:
        some = x > 0
        return float((x[some] * np.log(x[some] / middle[some])).sum())

    return math.sqrt(max((divergence(p) + divergence(q)) / 2, 0.0))
