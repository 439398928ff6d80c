"""Arms over common seeds as a blocked design: a mean for each arm, a shift for each seed, and one residual variance.

Runs of one seed share fleet, data and first weights. The additive model (value = arm + seed + rest) takes that out, and all arms
together say how large the rest is: with 3 arms on 3 seeds it has 4 degrees of freedom where a paired test of two has 2.

The best arm is chosen after seeing the data, so its distance to another is compared with the range of as many equal means as lie
between the two in order (Newman and Keuls, from the best arm only, which keeps the chance of any false claim at the level). A
declared baseline is compared by Dunnett's test. If the arms' residuals are not equally wide, or too few seeds are common to all,
each pair is tested by itself, with Holm's correction. Where seeds share fleets, data or trainings, averages over them are tested
too, and the least sure answer counts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedfleet.core.records import Floats
from fedfleet.measure.statistics.looks import ERROR
from fedfleet.measure.statistics.means import scipy_special, two_sided_p
from fedfleet.measure.statistics.paired_tests import Draws, PairedResult, Seed, shared_parts
from fedfleet.measure.statistics.simultaneous_tests import dunnett_p, dunnett_quantile, range_p, range_quantile

POOLED, UNEQUAL, INCOMPLETE = "pooled", "unequal variances", "few common seeds"
# Of the test of equal variances. It is strict, so that arms are hardly ever set apart by chance: a pair that happens to vary little
# would gain by that.
UNEQUAL_LEVEL = 0.002
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Contrast:
    """One arm against another; `paired` is None where they have no seed in common.

    The interval and `p` are corrected for the number of arms and of looks: p is below ERROR only where the interval does not hold
    0. `paired.p` is not corrected.
    """

    arm: str
    other: str
    paired: PairedResult | None
    p: float | None


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


Tested = tuple[PairedResult | None, float | None]


def best_against_others(
    values: Values[Seed],
    draws: Mapping[Seed, Draws],
    *,
    grain: float = 0.0,
    level: float = ERROR,
    baseline: str | None = None,
    apart: Collection[str] = (),
) -> BlockedDesign:
    """The arm with the highest mean over the common seeds against every other. `grain` as in `paired_test`, `level` of this look.

    Arms that are `apart` are not in the design, since their runs do not scatter as those of the others; each is tested by itself.

    >>> runs = {"a": {1: 0.9, 2: 0.8, 3: 0.85}, "b": {1: 0.7, 2: 0.65, 3: 0.6}, "c": {1: 0.74, 2: 0.6, 3: 0.7}}
    >>> design = best_against_others(runs, {seed: {"fleets": seed} for seed in (1, 2, 3)})
    >>> [(one.arm, one.other, one.p and one.p < 0.01) for one in design.contrasts]
    [('a', 'c', True), ('a', 'b', True)]
    """
    inside = {arm: mine for arm, mine in values.items() if arm not in apart}
    common = common_seeds(inside)
    means = {arm: float(np.mean([mine[s] for s in common] if common else list(mine.values()))) for arm, mine in inside.items()}
    best = max(means, key=lambda arm: means[arm])
    others = sorted((arm for arm in inside if arm != best), key=lambda arm: -means[arm])
    design = _contrasts(best, others, inside, draws, grain=grain, level=level, baseline=baseline)
    alone = [_pair_by_itself(best, arm, values, draws, grain, level) for arm in values if arm in apart]
    return replace(design, contrasts=(*design.contrasts, *alone))


def all_against_baseline(
    baseline: str,
    values: Values[Seed],
    draws: Mapping[Seed, Draws],
    *,
    grain: float = 0.0,
    level: float = ERROR,
    apart: Collection[str] = (),
) -> dict[str, Contrast]:
    """Every other arm minus the baseline, by Dunnett's test; pairs with an arm that is `apart` by themselves."""
    inside = {arm: mine for arm, mine in values.items() if arm not in apart}
    turned = dict[str, Contrast]()
    if baseline in inside:
        others = [arm for arm in inside if arm != baseline]
        for one in _contrasts(baseline, others, inside, draws, grain=grain, level=level, baseline=baseline).contrasts:
            turned[one.other] = Contrast(one.other, baseline, one.paired and reversed_result(one.paired), one.p)
    alone = [arm for arm in values if arm != baseline and arm not in turned]
    return turned | {arm: _pair_by_itself(arm, baseline, values, draws, grain, level) for arm in alone}


def _pair_by_itself(
    arm: str, other: str, values: Values[Seed], draws: Mapping[Seed, Draws], grain: float, level: float
) -> Contrast:
    ((result, p),) = _holm_results([_pair_fit(values[arm], values[other], draws, grain)], level)
    return Contrast(arm, other, result, p)


def common_seeds(values: Values[Seed]) -> list[Seed]:
    """The seeds that all arms have, in the order of the first."""
    first = next(iter(values))
    return [seed for seed in values[first] if all(seed in mine for mine in values.values())]


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
    return bool(tails.min() * arms < UNEQUAL_LEVEL)


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
        fixed = [baseline in (arm, name) for name in others]
        results = _pooled_results(table, [draws[s] for s in common], grain, level, fixed=fixed)
    else:
        results = _holm_results([_pair_fit(values[arm], values[name], draws, grain) for name in others], level)
    sd = math.sqrt(_residual_variance(table, grain)) if len(common) > 1 and others else None
    pairs = tuple(Contrast(arm, name, *result) for name, result in zip(others, results, strict=True))
    return BlockedDesign(arm, pairs, method, len(common), sd)


def _residual_variance(table: Floats, grain: float) -> float:
    """The mean square of the rest; two values differ by one grain at least, so that a few equal ones do not look certain."""
    arms, seeds = table.shape
    square = float((_residuals(table) ** 2).sum()) / ((arms - 1) * (seeds - 1))
    noise = _ROUNDING * float(np.abs(table).max(initial=0.0))
    return max(square if square > noise**2 else 0.0, grain**2 / 2 if grain > noise else 0.0)


def _pooled_results(table: Floats, draws: Sequence[Draws], grain: float, level: float, *, fixed: Sequence[bool]) -> list[Tested]:
    """The first row against every other; `fixed` are those that are compared as with a baseline."""
    others = len(table) - 1
    fits = [_least_sure(_pooled_fits(table, draws, i + 1, grain)) for i in range(others)]
    results = [
        _pooled_result(fit, i + 2, others, level, against_baseline=is_fixed)
        for i, (fit, is_fixed) in enumerate(zip(fits, fixed, strict=True))
    ]
    return _step_down(results, fixed)


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


def _tested(fit: _Fit, p: float, near: float, far: float, level: float) -> Tested:
    """The result with its corrected p; all looks together err with ERROR, and this one may with `level` of it.

    `near` and `far` are how far the interval reaches towards 0 and away from it, in standard errors. The nearest arm to the best
    is in part the luckiest of the others, so that the best may be farther ahead than it looks: `far` allows for all arms.
    """
    if fit.n < 2:
        return PairedResult(fit.difference, None, None, None, fit.n, fit.unit), None
    if not fit.error and fit.difference:  # all alike but for rounding: what is left is the sign, n heads in a row
        sign = 2.0 ** (1 - fit.n)
        return PairedResult(fit.difference, None, None, sign, fit.n, fit.unit), min(1.0, sign * ERROR / level)
    below, above = (near, far) if fit.difference >= 0 else (far, near)
    low, high = fit.difference - below * fit.error, fit.difference + above * fit.error
    return PairedResult(fit.difference, low, high, fit.p, fit.n, fit.unit), min(1.0, p * ERROR / level)


def _pooled_result(fit: _Fit, span: int, others: int, level: float, *, against_baseline: bool) -> Tested:
    """`span`: how many means lie between the two, both included."""
    if not fit.error:
        return _tested(fit, 1.0, 0.0, 0.0, level)
    if against_baseline:
        half = dunnett_quantile(level, others, fit.freedom)
        return _tested(fit, dunnett_p(fit.t, others, fit.freedom), half, half, level)
    near, far = (range_quantile(level, arms, fit.freedom) for arms in (span, others + 1))
    return _tested(fit, range_p(fit.t, span, fit.freedom), near, far, level)


def _step_down(results: Sequence[Tested], fixed: Sequence[bool]) -> list[Tested]:
    """An arm that lies between the best and another that is not worse is not worse either: p never falls towards the best."""
    highest, stepped = 0.0, list[Tested]()
    for (result, p), is_fixed in reversed(list(zip(results, fixed, strict=True))):
        if p is not None and not is_fixed:
            highest = p = max(highest, p)
        stepped.append((result, p))
    return stepped[::-1]


def _holm_results(fits: Sequence[_Fit | None], level: float) -> list[Tested]:
    """Each pair by itself: p by Holm, and the interval at the level of its step."""
    tested = sorted((fit.p, i) for i, fit in enumerate(fits) if fit is not None and fit.n > 1)
    results: list[Tested] = [(None, None) if fit is None else _tested(fit, 1.0, 0.0, 0.0, level) for fit in fits]
    highest = 0.0
    for rank, (p, i) in enumerate(tested):
        fit, steps = fits[i], len(tested) - rank
        assert fit is not None
        highest = max(highest, min(1.0, p * steps))
        near, far = (float(scipy_special().stdtrit(fit.freedom, 1 - level / m / 2)) for m in (steps, len(tested)))
        results[i] = _tested(fit, highest, near, far, level)
    return results
