"""Correlation with a bootstrap interval that redraws whole clusters.

Runs on one fleet draw resemble each other: ten runs on two fleets are nearer to two observations than to ten. Whoever redraws
single runs gets an interval that is too narrow; redrawing fleets, each with all of its runs, does not. Few clusters give a
percentile interval that is too narrow still: its ends are moved outwards as Student's t and the spread of a small sample ask
(T. Hesterberg: What teachers should know about the bootstrap, 2015), so that it covers the truth 19 times of 20 or a little more.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.records import Floats
from fedfleet.core.rng import stream
from fedfleet.measure.statistics.means import finite_values, quantile

Method = Literal["pearson", "spearman"]
_MIN_POINTS = 3  # two points always lie on a line
MIN_CLUSTERS = 4  # clusters: whatever is redrawn of three covers the truth too seldom
_BATCH = 1 << 20  # weights in memory at once


@dataclass(frozen=True, slots=True)
class Correlation:
    """r over n points in that many clusters, with the 95 % percentile interval; None where it is not defined."""

    r: float | None
    low: float | None
    high: float | None
    n: int
    clusters: int
    method: Method


def correlation(
    x: Sequence[float],
    y: Sequence[float],
    *,
    method: Method = "pearson",
    clusters: Sequence[Hashable] | None = None,
    draws: int = 2000,
    seed: int = 0,
) -> Correlation:
    """Pearson's or Spearman's r, and its interval over redrawn clusters; without clusters every point is one.

    Draws in which a variable does not vary have no r and are left out; if they are most, or there are fewer than four clusters,
    there is no interval.

    >>> found = correlation([1, 2, 3, 4], [2, 4, 5, 9], draws=200)
    >>> round(found.r or 0, 3), found.n, found.clusters
    (0.965, 4, 4)
    """
    if method not in ("pearson", "spearman"):
        raise BadInput(f"unknown correlation {method!r}; use pearson or spearman")
    if not len(x) == len(y) == (len(x) if clusters is None else len(clusters)):
        raise BadInput("a correlation needs the same number of x and y values, and one cluster for each pair")
    if draws < 1:
        raise BadInput(f"draws {draws} must be at least 1")
    xs, ys = (np.array(finite_values(v, "a correlation"), np.float64) for v in (x, y))
    groups = np.arange(len(xs)) if clusters is None else _cluster_numbers(clusters)
    n, cluster_count = len(xs), int(groups.max()) + 1
    r = float(_weighted_r(xs, ys, np.ones((1, n)), method)[0])
    if n < _MIN_POINTS or not np.isfinite(r):
        return Correlation(None, None, None, n, cluster_count, method)
    bootstrap = _bootstrap_values(xs, ys, groups, method, draws, seed)
    if cluster_count < MIN_CLUSTERS or len(bootstrap) <= draws / 2:
        return Correlation(r, None, None, n, cluster_count, method)
    tail = _tail(cluster_count)
    low, high = np.quantile(bootstrap, [tail, 1.0 - tail])
    return Correlation(r, float(low), float(high), n, cluster_count, method)


def _tail(clusters: int) -> float:
    """The share of draws beyond either end of the interval: 2.5 % of very many clusters, less of few.

    >>> [round(_tail(n), 4) for n in (4, 10, 100, 10_000)]
    [0.0001, 0.0086, 0.0231, 0.025]
    """
    return 0.5 * math.erfc(quantile(clusters - 1) * math.sqrt(clusters / (clusters - 1)) / math.sqrt(2.0))


def _bootstrap_values(xs: Floats, ys: Floats, groups: np.ndarray, method: Method, draws: int, seed: int) -> Floats:
    """r of every draw that has one. A draw is how often each cluster comes up, so that each point has it as its weight."""
    cluster_count = int(groups.max()) + 1
    shares = np.full(cluster_count, 1.0 / cluster_count)
    rng = stream(seed, "bootstrap", cluster_count)
    step = max(1, _BATCH // len(xs))
    result: list[Floats] = []
    for begin in range(0, draws, step):
        counts = rng.multinomial(cluster_count, shares, size=min(step, draws - begin)).astype(np.float64)
        result.append(_weighted_r(xs, ys, counts[:, groups], method))
    values = np.concatenate(result)
    return values[np.isfinite(values)]


def _weighted_r(xs: Floats, ys: Floats, weights: Floats, method: Method) -> Floats:
    """r under each row of weights; NaN where a variable does not vary."""
    if method == "spearman":
        return _pearson_rows(_ranks(xs, weights), _ranks(ys, weights), weights)
    one = np.ones((len(weights), 1))
    return _pearson_rows(one * _standardise(xs), one * _standardise(ys), weights)


def _pearson_rows(a: Floats, b: Floats, weights: Floats) -> Floats:
    total = weights.sum(axis=1, keepdims=True)
    a = a - (weights * a).sum(axis=1, keepdims=True) / total
    b = b - (weights * b).sum(axis=1, keepdims=True) / total
    aa, bb = (weights * a * a).sum(axis=1), (weights * b * b).sum(axis=1)
    ab = (weights * a * b).sum(axis=1)
    # Where all drawn values are one and the same, rounding leaves a variance of some 1e-30 that means nothing.
    defined = (aa > 1e-20 * total[:, 0]) & (bb > 1e-20 * total[:, 0])
    r = np.full(len(weights), np.nan)
    r[defined] = np.clip(ab[defined] / np.sqrt(aa[defined] * bb[defined]), -1.0, 1.0)
    return r


def _standardise(values: Floats) -> Floats:
    """Centred, the largest 1 in size: r does not change, and no square gets too large or too small."""
    centred = values - values.mean()
    largest = float(np.abs(centred).max())
    return centred / largest if largest > 1e-12 * float(np.abs(values).max()) else np.zeros_like(values)


def _ranks(values: Floats, weights: Floats) -> Floats:
    """The average rank of every point in the sample in which it comes up as often as its weight says."""
    _, first, place = np.unique(np.sort(values), return_index=True, return_inverse=True)
    order = np.argsort(values, kind="stable")
    weight_sums = np.add.reduceat(weights[:, order], first, axis=1)  # how often each different value comes up
    place = place[np.argsort(order)]
    return (np.cumsum(weight_sums, axis=1) - weight_sums + (weight_sums + 1.0) / 2.0)[:, place]


def _cluster_numbers(clusters: Sequence[Hashable]) -> np.ndarray:
    """0, 1, .. for each cluster in order of appearance."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(c, len(numbers)) for c in clusters])
