"""Clipping: how far an update may go, computed so that every kernel finds the same bits.

A sum of doubles depends on the order of its additions. Here the second half of an array is added to the first, again and again:
elementwise additions are the same on every machine, so that folding with numpy and with torch scales by the same number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from fedfleet.core.errors import Refused
from fedfleet.core.exact import Scale
from fedfleet.core.trees import Tree

_ROUNDING = 1.0 - 2.0**-40  # more than all additions and the root can be wrong by


def pairwise_sum(values: Any) -> Any:
    """The sums along the last axis of an array or a tensor of doubles, which is used up.

    >>> float(pairwise_sum(np.array([1.0, 2.0, 3.0])))
    6.0
    """
    n = values.shape[-1]
    while n > 1:
        half = (n + 1) // 2
        values[..., : n - half] += values[..., half:n]
        n = half
    return values[..., :1].sum(-1)  # of nothing, 0


def squares_of(update: Tree, names: Iterable[str]) -> list[float]:
    """The sum of squares of each of these leaves."""
    return [float(pairwise_sum(np.square(update[name].reshape(-1).astype(np.float64)))) for name in names]


def slack(like: Tree, scales: Mapping[str, Scale]) -> float:
    """How far rounding to fixed point can move an update, as a Euclidean norm: half a unit in every element."""
    return 0.5 * math.sqrt(math.fsum(like[n].size * math.ldexp(1.0, -2 * s.power) for n, s in scales.items()))


def clip_factor(clip: float, squares: Iterable[float], rounding: float) -> float:
    """The factor, at most 1, after which an update is no longer than `clip`, rounding to fixed point included."""
    limit = clip * _ROUNDING - rounding
    if limit <= 0.0:
        raise Refused(
            f"rounding alone moves an update of this model by {rounding:.3g}, beyond its limit {clip:g}; raise the limit, or lower "
            "algorithm.bound"
        )
    norm = math.sqrt(math.fsum(squares))
    return 1.0 if norm <= limit else limit / norm
