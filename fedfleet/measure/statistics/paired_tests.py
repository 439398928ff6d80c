"""Paired comparison on common seeds, and Holm's correction for many of them.

Two arms that ran on the same fleets, data and first weights differ by less than two that did not: the t test of the differences,
seed by seed, sees that, an interval around each mean does not.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.measure.statistics.means import finite_values, mean_of
from fedfleet.measure.statistics.student import quantile, two_sided_p

Seed = TypeVar("Seed", bound=Hashable)


@dataclass(frozen=True, slots=True)
class PairedResult:
    """The mean of a - b over n common seeds, its 95 % interval, and the two-sided p of "there is no difference".

    With one seed there is neither interval nor p; differences that are all alike have a p and no interval. `unit`: what n counts,
    if not seeds (see `shared_parts`).
    """

    difference: float
    low: float | None
    high: float | None
    p: float | None
    n: int
    unit: str = "seeds"


def paired_test(a: Sequence[float], b: Sequence[float], *, grain: float = 0.0) -> PairedResult:
    """Student's paired test of a against b, value by value of common seeds.

    `grain`: the smallest difference that two values can have, which for accuracies is one sample of the test set. A few small
    differences are often alike by chance then, and must not look certain: their spread counts as one grain at least.

    >>> found = paired_test([0.9, 0.8, 0.85], [0.7, 0.65, 0.6])
    >>> round(found.difference, 3), round(found.p or 0, 3), found.n
    (0.2, 0.02, 3)
    """
    if len(a) != len(b):
        raise BadInput(f"a paired comparison needs a value of both for every seed; there are {len(a)} and {len(b)}")
    gaps = list(np.subtract(finite_values(a, "a paired comparison"), finite_values(b, "a paired comparison")).tolist())
    mean = mean_of(gaps)
    if mean.sd is None:
        return PairedResult(mean.value, None, None, None, mean.n)
    noise = 1e-12 * max(map(abs, (*a, *b)), default=0.0)
    if mean.sd <= noise:
        if abs(mean.value) <= noise:
            return PairedResult(mean.value, mean.value, mean.value, 1.0, mean.n)
        if grain <= noise:
            # All alike but for rounding, of which Student's t says that it is certain. What is left is the sign: n heads in a row.
            return PairedResult(mean.value, None, None, 2.0 ** (1 - mean.n), mean.n)
    if mean.sd >= grain:
        t = mean.value / (mean.sd / math.sqrt(mean.n))
        return PairedResult(mean.value, mean.low, mean.high, two_sided_p(t, mean.n - 1), mean.n)
    error = grain / math.sqrt(mean.n)
    half = quantile(mean.n - 1) * error
    return PairedResult(
        mean.value, mean.value - half, mean.value + half, two_sided_p(mean.value / error, mean.n - 1), mean.n
    )


def paired_test_by_seed(a: Mapping[Seed, float], b: Mapping[Seed, float], *, grain: float = 0.0) -> PairedResult | None:
    """The paired comparison on the seeds that both have; None if they have none in common. `grain` as in `paired_test`.

    >>> found = paired_test_by_seed({1: 0.9, 2: 0.8}, {2: 0.5, 3: 0.4})
    >>> found and (round(found.difference, 3), found.p, found.n)
    (0.3, None, 1)
    """
    common = [seed for seed in a if seed in b]
    return paired_test([a[seed] for seed in common], [b[seed] for seed in common], grain=grain) if common else None


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Holm's correction: p of the i-th smallest of m times m - i + 1, never falling, at most 1.

    The chance that any true "no difference" among the m is rejected stays below the level. None, a comparison that could not be
    tested, stays None and does not count.

    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    tested = sorted((p, i) for i, p in enumerate(ps) if p is not None)
    result: list[float | None] = [None] * len(ps)
    highest = 0.0
    for rank, (p, i) in enumerate(tested):
        highest = max(highest, min(1.0, p * (len(tested) - rank)))
        result[i] = highest
    return result
