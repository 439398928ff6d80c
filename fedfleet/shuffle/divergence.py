"""How uneven a device's classes are: Jensen-Shannon divergence of class shares against uniform (paper, Eq. 3).

Counts come as [.., classes, devices]. With N the mass of a column, q = N / c, and f(p) = JS(p || uniform),

    G(x) = N f(x / N) = 1/2 sum_i [ x_i ln(2 x_i / (x_i + q)) + q ln(2 q / (x_i + q)) ]

is convex and grows in proportion with x, so {x : DI(x) <= t} = {x : G(x) <= t N} is a convex cone: DI is quasi-convex.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EMPTY = math.log(2.0) / 2.0  # DI of a device without samples: the divergence of the zero vector
LARGEST = math.log(2.0)
_TINY = 1e-300


def perspective(x: Floats) -> tuple[Floats, Floats]:
    """G of each column of x [.., c, V] and its gradient; at x_i = 0 the gradient is very negative instead of infinite."""
    c = x.shape[-2]
    q = x.sum(-2, keepdims=True) / c + _TINY
    both = x + q
    own = np.log(2.0 * np.maximum(x, _TINY) / both)
    other = np.log(2.0 * q / both).sum(-2, keepdims=True)
    return 0.5 * ((x * own).sum(-2) + (q * other)[..., 0, :]), 0.5 * own + other / (2.0 * c)


def imbalance(x: Floats) -> Floats:
    """DI of each column of x [.., c, V]; (ln 2)/2 for an empty one.

    >>> imbalance(np.array([[3.0, 1.0, 0.0], [3.0, 0.0, 0.0]])).round(4).tolist()
    [0.0, 0.2158, 0.3466]
    """
    mass = x.sum(-2)
    return np.where(mass > 0.0, np.maximum(perspective(x)[0] / np.where(mass > 0.0, mass, 1.0), 0.0), EMPTY)


def least_imbalance(totals: Ints, most: int | None = None) -> Floats:
    """The least DI that n whole samples can have, for n = 0 .. sum(totals), taking at most totals[i] of class i.

    For given n the divergence is a sum of equal convex functions of the counts, so filling the classes level by level is best.
    With `most` the list ends at that n, and users of a million samples cost no more memory than those of so many.

    >>> least_imbalance(np.array([1, 2])).round(4).tolist()
    [0.3466, 0.2158, 0.0, 0.0144]
    """
    c = len(totals)
    if most is not None:
        totals = np.minimum(totals, most)  # no class is filled beyond that by then
    levels = np.repeat(np.arange(c), totals), np.concatenate([np.arange(k) for k in totals]) if c else np.empty(0)
    order = np.argsort(levels[1], kind="stable")
    order = order[:most]
    taken = np.zeros((c, len(order) + 1))
    taken[levels[0][order], np.arange(1, taken.shape[1])] = 1.0
    return imbalance(np.cumsum(taken, axis=1))
