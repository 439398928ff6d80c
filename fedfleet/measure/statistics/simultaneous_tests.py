"""Tukey's and Dunnett's distributions: how large the largest of several differences gets by chance alone.

Both are in units of Student's t, a difference over its standard error. `scipy.stats.studentized_range` gives the first ones too,
but takes 0.2 s for a quantile, and `scipy.stats.dunnett` knows one-way layouts only; here one quadrature serves both in a
millisecond.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from fedfleet.core.records import Floats
from fedfleet.measure.statistics.means import scipy_special

_NODES = 80  # of each of the two integrals: p is right to eight digits
_FARTHEST = 8.5  # standard deviations of a normal variate that count
_TAIL = 1e-13  # of the distribution of a standard deviation, left out on either side
_STEPS = 60  # halvings of an interval that a quantile is looked for in

Inner = Callable[[Floats, Floats], Floats]


def range_p(t: float, arms: int, freedom: float) -> float:
    """How often the largest and the smallest of so many equal means are at least t standard errors apart (Tukey).

    >>> round(range_p(2.306, 2, 8), 3), round(range_p(2.857, 3, 8), 3)
    (0.05, 0.05)
    """
    return _sf(abs(t), freedom, _within_range(arms))


def range_quantile(level: float, arms: int, freedom: float) -> float:
    """How many standard errors the extremes of equal means are apart with this chance.

    >>> round(range_quantile(0.05, 3, 8) * math.sqrt(2), 2)  # as in tables of the studentized range
    4.04
    """
    return _quantile(level, freedom, "range", arms)


def dunnett_p(t: float, others: int, freedom: float) -> float:
    """How often at least one of so many equal means is at least t standard errors from a common baseline (Dunnett, two-sided).

    >>> round(dunnett_p(2.306, 1, 8), 3), round(dunnett_p(2.94, 3, 8), 2)
    (0.05, 0.05)
    """
    return _sf(abs(t), freedom, _within_baseline(others))


def dunnett_quantile(level: float, others: int, freedom: float) -> float:
    """How many standard errors the farthest of equal means is from the baseline with this chance."""
    return _quantile(level, freedom, "baseline", others)


def _within_range(arms: int) -> Inner:
    ndtr = scipy_special().ndtr
    return lambda z, width: arms * (ndtr(z) - ndtr(z - width)) ** (arms - 1)


def _within_baseline(others: int) -> Inner:
    ndtr = scipy_special().ndtr
    return lambda z, width: (ndtr(z + width) - ndtr(z - width)) ** others


def _sf(t: float, freedom: float, inner: Inner) -> float:
    """One minus the chance that all differences are smaller: the mean of `inner` over a normal z and a standard deviation s."""
    z, z_weights = _normal_nodes()
    s, s_weights = _deviation_nodes(freedom)
    inside = inner(z[None, :], math.sqrt(2.0) * t * s[:, None]) @ z_weights
    return float(min(1.0, max(0.0, 1.0 - inside @ s_weights)))


@lru_cache(maxsize=4096)
def _quantile(level: float, freedom: float, family: str, count: int) -> float:
    inner = _within_range(count) if family == "range" else _within_baseline(count)
    low, high = 0.0, 1.0
    while _sf(high, freedom, inner) > level:
        low, high = high, 2.0 * high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _sf(middle, freedom, inner) > level else (low, middle)
    return (low + high) / 2


@lru_cache(maxsize=1)
def _normal_nodes() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    z = _FARTHEST * nodes
    density = weights * np.exp(-z * z / 2)
    return z, density / density.sum()


@lru_cache(maxsize=256)
def _deviation_nodes(freedom: float) -> tuple[Floats, Floats]:
    """Values of a sample's standard deviation over the true one, and their weights, on a scale of logarithms."""
    special = scipy_special()
    low, high = (math.log(special.chdtri(freedom, p) / freedom) / 2 for p in (1 - _TAIL, _TAIL))
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    x = low + (high - low) * (nodes + 1) / 2
    log_density = freedom * x - freedom * np.exp(2 * x) / 2  # of log s, up to a constant
    density = weights * np.exp(log_density - log_density.max())
    return np.exp(x), density / density.sum()
