"""Arms over common seeds: the textbook's analysis of variance, and what is done where it does not hold."""

import numpy as np
import pytest
from scipy import stats

from fedfleet.measure.statistics.blocked_design import (
    INCOMPLETE,
    POOLED,
    UNEQUAL,
    all_against_baseline,
    best_against_others,
    has_unequal_variances,
)
from fedfleet.measure.statistics.paired_tests import paired_test

RNG = np.random.default_rng(3)


def by_seed(table):
    return {name: dict(enumerate(map(float, row))) for name, row in zip("abcdef", table, strict=False)}


def draws(seeds, **shared):
    return {s: {"fleets": s, **{part: of(s) for part, of in shared.items()}} for s in range(seeds)}


def table(*means, seeds=5, sd=0.02, rng=None):
    rng = RNG if rng is None else rng
    return np.array(means)[:, None] + 0.3 * rng.normal(size=seeds) + sd * rng.normal(size=(len(means), seeds))


def test_two_arms_are_a_paired_test():
    values = table(0.6, 0.5)
    known = paired_test(*(row.tolist() for row in values))
    (found,) = best_against_others(by_seed(values), draws(5)).contrasts
    for key in ("difference", "low", "high", "p"):
        assert getattr(found.paired, key) == pytest.approx(getattr(known, key))
    assert found.p == pytest.approx(known.p) and found.paired.n == 5


def test_the_shift_of_a_seed_changes_nothing():
    values = table(0.6, 0.5, 0.4, rng=np.random.default_rng(1))
    one, other = (best_against_others(by_seed(v), draws(5)) for v in (values, values + np.arange(5.0)))
    assert one.sd == pytest.approx(other.sd)
    assert [c.p for c in one.contrasts] == pytest.approx([c.p for c in other.contrasts])


def test_a_constant_arm_and_a_wild_one_are_not_pooled():
    values = table(0.6, 0.5, 0.4, 0.3, seeds=10, rng=np.random.default_rng(1))
    assert best_against_others(by_seed(values), draws(10)).method == POOLED
    values[3] += 3.0 * RNG.normal(size=10)
    assert has_unequal_variances(values)
    design = best_against_others(by_seed(values), draws(10))
    assert design.method == UNEQUAL
    rows = dict(zip("abcd", values.tolist(), strict=True))
    for one in design.contrasts:
        alone = paired_test(rows[design.arm], rows[one.other])
        assert one.paired.p == pytest.approx(alone.p) and one.p >= alone.p


def test_the_farthest_arm_is_judged_by_the_range_of_all_and_the_nearest_by_students_t():
    values = table(0.6, 0.55, 0.5, rng=np.random.default_rng(5))
    design = best_against_others(by_seed(values), draws(5))
    assert design.method == POOLED
    near, far = design.contrasts
    error = design.sd * np.sqrt(2 / 5)
    assert near.p == pytest.approx(2 * stats.t.sf(near.paired.difference / error, 8), abs=1e-7)
    assert far.p == pytest.approx(stats.studentized_range.sf(far.paired.difference / error * np.sqrt(2), 3, 8), abs=1e-7)


def test_p_and_interval_decide_alike():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        values = table(*rng.normal(0.5, 0.02, 4), seeds=4, rng=rng)
        for one in best_against_others(by_seed(values), draws(4), level=0.04).contrasts:
            assert not (one.p < 0.05) or one.paired.low > 0


def test_arms_without_common_seeds_are_pairs():
    values = {"a": {1: 0.5, 2: 0.6, 3: 0.7}, "b": {2: 0.5, 3: 0.55, 4: 0.4}, "c": {4: 0.1, 5: 0.2}}
    design = best_against_others(values, {s: {"fleets": s} for s in range(1, 6)})
    assert design.method == INCOMPLETE and design.sd is None
    found = {c.other: c for c in design.contrasts}
    assert found["b"].paired.n == 2 and found["c"].paired is None and found["c"].p is None


def test_an_arm_that_is_apart_changes_nothing_for_the_others():
    values = table(0.6, 0.5, 0.4, rng=np.random.default_rng(1))
    plain = best_against_others(by_seed(values), draws(5))
    wild = np.vstack([values, RNG.normal(0.9, 0.4, 5)])
    found = best_against_others(by_seed(wild), draws(5), apart={"d"})
    assert found.arm == plain.arm and found.contrasts[:2] == plain.contrasts and found.contrasts[2].other == "d"


def test_the_baseline_is_judged_by_dunnett_from_either_side():
    values = table(0.6, 0.5, 0.4, rng=np.random.default_rng(1))
    against = all_against_baseline("c", by_seed(values), draws(5), level=0.04)
    assert set(against) == {"a", "b"} and against["a"].paired.difference == pytest.approx((values[0] - values[2]).mean())
    best = best_against_others(by_seed(values), draws(5), level=0.04, baseline="c")
    same = next(c for c in best.contrasts if c.other == "c")
    assert (same.paired.low, same.paired.high, same.p) == pytest.approx(
        (against["a"].paired.low, against["a"].paired.high, against["a"].p)
    )


def test_seeds_that_share_fleets_count_as_fleets():
    values = table(0.6, 0.5, seeds=6)
    values[0, 3:] += 0.2
    values[1] -= 0.001 * np.arange(6)
    found = best_against_others(by_seed(values), {s: {"fleets": s // 3} for s in range(6)})
    assert found.contrasts[0].paired.unit == "fleets" and found.contrasts[0].paired.n == 2


def test_a_few_equal_values_are_no_certainty():
    values = np.array([[0.5, 0.52, 0.54], [0.5, 0.52, 0.54]]) + np.array([[0.0025], [0.0]])
    grained = best_against_others(by_seed(values), draws(3), grain=0.0025).contrasts[0]
    assert grained.p > 0.2
    bare = best_against_others(by_seed(values), draws(3)).contrasts[0]
    assert bare.p == bare.paired.p == 0.25 and bare.paired.low is None, "the sign alone"
    level = best_against_others(by_seed(values[[0, 0]]), draws(3)).contrasts[0]
    assert level.p == 1.0 and level.paired.difference == level.paired.low == 0.0


def test_a_smaller_level_widens_the_interval_and_raises_p():
    values = table(0.6, 0.58, 0.5, rng=np.random.default_rng(2))
    one, other = (best_against_others(by_seed(values), draws(5), level=level).contrasts[0] for level in (0.05, 0.005))
    assert other.paired.high - other.paired.low > one.paired.high - one.paired.low and other.p == pytest.approx(
        min(1.0, 10 * one.p)
    )
