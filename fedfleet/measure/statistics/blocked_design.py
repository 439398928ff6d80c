"""Arms over common seeds as a blocked design: a mean for each arm, a shift for each seed, and one residual variance.

Runs of one seed share fleet, data and first weights. The additive model (value = arm + seed + rest) takes that out, and all arms
together say how large the rest is: with 3 arms on 3 seeds it has 4 degrees of freedom where a paired test of two has 2.

The best arm is chosen after seeing the data, so its distance to another is compared with the range of as many equal means as lie
between the two in order (Newman and Keuls, from the best arm only, which keeps the chance of any false claim at the level). A
declared baseline is compared by Dunnett's test. If the arms' residuals are not equally wide, or too few seeds are common to all, each
pair is tested by itself, with Holm's correction. Where seeds share fleets, data or trainings, averages over them are tested too, and
the least sure answer counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedfleet.core.records import Floats
from fedfleet.measure.statistics.looks import ERROR
from fedfleet.measure.statistics.means import scipy_special, two_sided_p
from fedfleet.measure.statistics.paired_tests import Draws, PairedResult, Seed, shared_parts
from fedfleet.measure.statistics.simultaneous_tests import dunnett_p, dunnett_quantile, range_p, range_quantile

POOLED, UNEQUAL, INCOMPLETE = "pooled", "unequal variances", "few common seeds"
_UNEQUAL_LEVEL = 0.1  # of the test of equal variances
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Contrast:
    """One arm against another. Interval and p are corrected for the number of arms and of looks: p is below ERROR only where the
    interval does not hold 0. None: the two have no seed in common."""

    arm: str
    other: str
    paired: PairedResult | None


@dataclass(frozen=True, slots=True)
class BlockedDesign:
    """What arms over common seeds say: contrasts of one arm with all others, and how they were tested.

    `sd` is how far a run deviates from the model of arms and seeds (None: unknown), `method` one of POOLED, UNEQUAL and INCOMPLETE.
    """

    arm: str
    contrasts: tuple[Contrast, ...]
    method: str
    seeds: int
    sd: float | None


Values = Mapping[str, Mapping[Seed, float]]  # by arm and seed


@dataclass(frozen=True, slots=True)
class _Fit:
    """A difference before any correction."""

    difference: float
    error: float  # standard
    freedom: int
    n: int
    unit: str

    @property
    def t(self) -> float:
        return math.inf if not self.error else self.difference / self.error

    @property
    def p(self) -> float:
        return two_sided_p(self.t, self.freedom) if self.error else 0.0 if self.difference else 1.0


def best_against_others(
    values: Values[Seed], draws: Mapping[Seed, Draws], *, grain: float = 0.0, level: float = ERROR, baseline: str | None = None
) -> BlockedDesign:
    """The arm with the highest mean over the common seeds against every other. `grain` as in `paired_test`, `level` of this look.

    >>> runs = {"a": {1: 0.9, 2: 0.8, 3: 0.85}, "b": {1: 0.7, 2: 0.65, 3: 0.6}, "c": {1: 0.74, 2: 0.6, 3: 0.7}}
    >>> design = best_against_others(runs, {seed: {"fleets": seed} for seed in (1, 2, 3)})
    >>> [(one.arm, one.other, one.paired and one.paired.p < 0.01) for one in design.contrasts]
    [('a', 'c', True), ('a', 'b', True)]
    """
    common = common_seeds(values)
    means = {arm: float(np.mean([mine[s] for s in common] if common else list(mine.values()))) for arm, mine in values.items()}
    best = max(means, key=lambda arm: means[arm])
    others = sorted((arm for arm in values if arm != best), key=lambda arm: -means[arm])
    return _contrasts(best, others, values, draws, grain=grain, level=level, baseline=baseline)


def all_against_baseline(
    baseline: str, values: Values[Seed], draws: Mapping[Seed, Draws], *, grain: float = 0.0, level: float = ERROR
) -> BlockedDesign:
    """Every other arm minus the baseline, by Dunnett's test."""
    others = [arm for arm in values if arm != baseline]
    design = _contrasts(baseline, others, values, draws, grain=grain, level=level, baseline=baseline)
    turned = tuple(Contrast(one.other, one.arm, one.paired and reversed_result(one.paired)) for one in design.contrasts)
    return BlockedDesign(baseline, turned, design.method, design.seeds, design.sd)


def common_seeds(values: Values[Seed]) -> list[Seed]:
    """The seeds that all arms have, in the order of the first."""
    first = next(iter(values.values()), {})
    return [seed for seed in first if all(seed in mine for mine in values.values())]


def reversed_result(result: PairedResult) -> PairedResult:
    """The same difference seen from the other side."""
    low, high = None if result.high is None else -result.high, None if result.low is None else -result.low
    return PairedResult(-result.difference, low, high, result.p, result.n, result.unit)


def has_unequal_variances(table: Floats) -> bool:
    """Do the residuals of one arm (a row) spread significantly more or less than those of the others?

    The distance of an arm to the mean of the others varies from seed to seed by F(n - 1, (n - 1)(k - 2)) times the rest.

    >>> rest = np.random.default_rng(0).normal(size=(4, 8))
    >>> has_unequal_variances(rest), has_unequal_variances(rest * [[1], [1], [1], [20]])
    (False, True)
    """
    arms, seeds = table.shape
    if arms < 3 or seeds < 2:
        return False
    squares = (_residuals(table) ** 2).sum(axis=1) * arms / (arms - 1)
    rest = (_residuals(table) ** 2).sum() - squares
    freedom = seeds - 1
    if (rest <= 0).any():
        return bool((squares > 0).any())
    ratios = squares / freedom / (rest / (freedom * (arms - 2)))
    tails = scipy_special().fdtrc(freedom, freedom * (arms - 2), ratios)
    return bool(tails.min() * arms < _UNEQUAL_LEVEL)


def _residuals(table: Floats) -> Floats:
    return table - table.mean(axis=1, keepdims=True) - table.mean(axis=0, keepdims=True) + table.mean()


def _contrasts(
    arm: str,
    others: Sequence[str],
    values: Values[Seed],
    draws: Mapping[Seed, Draws],
    *,
    grain: float,
    level: float,
    baseline: str | None,
) -> BlockedDesign:
    """One arm against the others, which stand in the order of their means, the highest first."""
    common = common_seeds(values)
    table = np.array([[values[name][s] for s in common] for name in (arm, *others)])
    method = INCOMPLETE if len(common) < 2 else UNEQUAL if has_unequal_variances(table) else POOLED
    if method == POOLED:
        fits: list[_Fit | None] = [
            _least_sure(_pooled_fits(table, [draws[s] for s in common], i + 1, grain)) for i in range(len(others))
        ]
        results = [
            None if fit is None else _pooled_result(fit, i + 2, len(others), level, against_baseline=baseline in (arm, name))
            for i, (fit, name) in enumerate(zip(fits, others, strict=True))
        ]
        results = _step_down(results, [baseline in (arm, name) for name in others])
    else:
        fits = [_pair_fit(values[arm], values[name], draws, grain) for name in others]
        results = _holm_results(fits, level)
    sd = math.sqrt(_residual_variance(table, grain)) if len(common) > 1 and others else None
    pairs = tuple(Contrast(arm, name, result) for name, result in zip(others, results, strict=True))
    return BlockedDesign(arm, pairs, method, len(common), sd)


def _residual_variance(table: Floats, grain: float) -> float:
    """The mean square of the rest; two values differ by one grain at least, so that a few equal ones do not look certain."""
    arms, seeds = table.shape
    square = float((_residuals(table) ** 2).sum()) / ((arms - 1) * (seeds - 1))
    noise = _ROUNDING * float(np.abs(table).max(initial=0.0))
    return max(square if square > noise**2 else 0.0, grain**2 / 2 if grain > noise else 0.0)


def _pooled_fits(table: Floats, draws: Sequence[Draws], other: int, grain: float) -> list[_Fit]:
    """The first row against another: over all seeds, and over the averages of each part that seeds share."""
    views = [(table, "seeds")]
    for part, groups in shared_parts(draws).items():
        views.append((np.stack([table[:, group].mean(axis=1) for group in groups], axis=1), part))
    return [_pooled_fit(view, other, unit, grain) for view, unit in views]


def _pooled_fit(table: Floats, other: int, unit: str, grain: float) -> _Fit:
    arms, n = table.shape
    gap = _without_rounding(float((table[0] - table[other]).mean()), table)
    return _Fit(gap, math.sqrt(2 * _residual_variance(table, grain) / n), (arms - 1) * (n - 1), n, unit)


def _pair_fit(a: Mapping[Seed, float], b: Mapping[Seed, float], draws: Mapping[Seed, Draws], grain: float) -> _Fit | None:
    """Two arms by themselves, on the seeds that both have; None if there are none."""
    common = [seed for seed in a if seed in b]
    if not common:
        return None
    table = np.array([[side[s] for s in common] for side in (a, b)])
    if len(common) == 1:
        return _Fit(float(table[0, 0] - table[1, 0]), 0.0, 0, 1, "seeds")
    return _least_sure(_pooled_fits(table, [draws[s] for s in common], 1, grain))


def _least_sure(fits: Sequence[_Fit]) -> _Fit:
    return max(fits, key=lambda fit: fit.p)


def _without_rounding(gap: float, table: Floats) -> float:
    return 0.0 if abs(gap) <= _ROUNDING * float(np.abs(table).max(initial=0.0)) else gap


def _result(fit: _Fit, p: float, half: float, level: float) -> PairedResult:
    """The corrected result; all looks together err with ERROR, and this one may with `level` of it."""
    if fit.n < 2:
        return PairedResult(fit.difference, None, None, None, fit.n, fit.unit)
    if not fit.error and fit.difference:  # all alike but for rounding: what is left is the sign, n heads in a row
        return PairedResult(fit.difference, None, None, min(1.0, 2.0 ** (1 - fit.n) * ERROR / level), fit.n, fit.unit)
    p = min(1.0, p * ERROR / level)
    return PairedResult(fit.difference, fit.difference - half, fit.difference + half, p, fit.n, fit.unit)


def _pooled_result(fit: _Fit, span: int, others: int, level: float, *, against_baseline: bool) -> PairedResult:
    """`span`: how many means lie between the two, both included."""
    if not fit.error:
        return _result(fit, 1.0, 0.0, level)
    if against_baseline:
        return _result(fit, dunnett_p(fit.t, others, fit.freedom), dunnett_quantile(level, others, fit.freedom) * fit.error, level)
    return _result(fit, range_p(fit.t, span, fit.freedom), range_quantile(level, span, fit.freedom) * fit.error, level)


def _step_down(results: Sequence[PairedResult | None], fixed: Sequence[bool]) -> list[PairedResult | None]:
    """An arm that lies between the best and another that is not worse is not worse either: p never falls towards the best."""
    highest, stepped = 0.0, list[PairedResult | None]()
    for result, is_fixed in reversed(list(zip(results, fixed, strict=True))):
        if result is None or result.p is None or is_fixed:
            stepped.append(result)
            continue
        highest = max(highest, result.p)
        stepped.append(PairedResult(result.difference, result.low, result.high, highest, result.n, result.unit))
    return stepped[::-1]


def _holm_results(fits: Sequence[_Fit | None], level: float) -> list[PairedResult | None]:
    """Each pair by itself: p by Holm, and the interval at the level of its step."""
    tested = sorted((fit.p, i) for i, fit in enumerate(fits) if fit is not None and fit.n > 1)
    results: list[PairedResult | None] = [None if fit is None else _result(fit, 1.0, 0.0, level) for fit in fits]
    highest = 0.0
    for rank, (p, i) in enumerate(tested):
        fit, steps = fits[i], len(tested) - rank
        assert fit is not None
        highest = max(highest, min(1.0, p * steps))
        half = float(scipy_special().stdtrit(fit.freedom, 1 - level / steps / 2)) * fit.error
        results[i] = _result(fit, highest, half, level)
    return results
