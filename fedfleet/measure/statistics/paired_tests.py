"""Paired comparison on common seeds, and Holm's correction for many of them.

Two arms that ran on the same fleets, data and first weights differ by less than two that did not: the t test of the differences,
seed by seed, sees that, an interval around each mean does not.

Seeds of fleet, data and training can be drawn apart and crossed. Runs on one fleet then resemble each other, and Student's interval
over all of them is too narrow. Whatever is shared is averaged first, once for each part that is; the widest answer counts.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.measure.statistics.means import Mean, finite_values, mean_of, quantile, two_sided_p

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
        raise BadInput(f"a paired comparison needs one value of each side for every seed; there are {len(a)} and {len(b)}")
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
    return PairedResult(mean.value, mean.value - half, mean.value + half, two_sided_p(mean.value / error, mean.n - 1), mean.n)


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


Draws = Mapping[str, Hashable]  # what a run was drawn from: a word for several of a kind, and which one it is


def shared_parts(draws: Sequence[Draws]) -> dict[str, list[list[int]]]:
    """The parts that some runs share and not all: for each the places of the runs that have one draw of it in common.

    >>> shared_parts([{"fleets": 1, "trainings": 1}, {"fleets": 1, "trainings": 2}, {"fleets": 2, "trainings": 3}])
    {'fleets': [[0, 1], [2]]}
    """
    result: dict[str, list[list[int]]] = {}
    for part in draws[0] if draws else ():
        groups: dict[Hashable, list[int]] = {}
        for i, draw in enumerate(draws):
            groups.setdefault(draw[part], []).append(i)
        if 1 < len(groups) < len(draws):
            result[part] = list(groups.values())
    return result


def mean_over(values: Sequence[float], draws: Sequence[Draws], *, least: float = -float("inf"), most: float = float("inf")) -> Mean:
    """The mean of all values, with the widest of the intervals that each shared part gives, or all values by themselves.

    >>> found = mean_over([0.5, 0.5, 0.7, 0.7], [{"fleets": 1}, {"fleets": 1}, {"fleets": 2}, {"fleets": 2}], least=0.0, most=1.0)
    >>> round(found.value, 3), found.low, found.high, found.n
    (0.6, 0.0, 1.0, 4)
    """
    parts = shared_parts(draws)
    if not parts:
        return mean_of(values, least=least, most=most)
    plain = mean_of(values)
    means = [plain, *(mean_of(_group_means(values, groups)) for groups in parts.values())]
    half = max(0.0 if mean.high is None else mean.high - mean.value for mean in means)
    return replace(plain, low=max(least, plain.value - half), high=min(most, plain.value + half))


def paired_test_over(
    a: Mapping[Seed, float], b: Mapping[Seed, float], draws: Mapping[Seed, Draws], *, grain: float = 0.0
) -> PairedResult | None:
    """The paired comparison on the seeds that both have; where they share a part, of the averages over its draws, whichever of
    all these is the least sure. None: they have no seed in common.

    >>> drawn = {i: {"fleets": i // 3} for i in range(6)}
    >>> found = paired_test_over(dict.fromkeys(range(6), 0.5), {i: 0.5 - 0.1 * (i // 3) - 0.01 * i for i in range(6)}, drawn)
    >>> found and (found.n, found.unit, found.p and round(found.p, 2))
    (2, 'fleets', 0.45)
    """
    common = [seed for seed in a if seed in b]
    if not common:
        return None
    a_values, b_values = [a[seed] for seed in common], [b[seed] for seed in common]
    tests = [paired_test(a_values, b_values, grain=grain)]
    for part, groups in shared_parts([draws[seed] for seed in common]).items():
        test = paired_test(_group_means(a_values, groups), _group_means(b_values, groups), grain=grain)
        tests.append(replace(test, unit=part))
    return max(tests, key=lambda one: 2.0 if one.p is None else one.p)


def _group_means(values: Sequence[float], groups: Sequence[Sequence[int]]) -> list[float]:
    return [sum(values[i] for i in group) / len(group) for group in groups]
