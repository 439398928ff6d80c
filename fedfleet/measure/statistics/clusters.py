"""Means and paired tests over runs that share a draw: ten trainings on two fleets tell of two fleets, not of twenty.

Seeds of fleet, data and training can be drawn apart and crossed. Runs on one fleet then resemble each other, and Student's interval
over all of them is too narrow. Whatever is shared is averaged first, once for each part that is; the widest answer counts.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from fedfleet.measure.statistics.means import Mean, mean_of
from fedfleet.measure.statistics.paired_tests import PairedResult, paired_test

Draws = Mapping[str, Hashable]  # what a run was drawn from: a word for several of a kind, and which one it is
Seed = TypeVar("Seed", bound=Hashable)


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


def mean_over(
    values: Sequence[float], draws: Sequence[Draws], *, least: float = -float("inf"), most: float = float("inf")
) -> Mean:
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
