"""Paired tests on common seeds, and Holm's correction."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from fedfleet.core.errors import BadInput
from fedfleet.measure.statistics.means import mean_of
from fedfleet.measure.statistics.paired_tests import (
    holm,
    mean_over,
    paired_test,
    paired_test_by_seed,
    paired_test_over,
    shared_parts,
)

TWO = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)), min_size=2, max_size=10)
PS = st.lists(st.floats(0, 1), max_size=8)


@given(TWO)
def test_difference_interval_and_p_are_scipys(rows):
    a, b = ([v[i] / 400 for v in rows] for i in (0, 1))
    assume(len({x - y for x, y in rows}) > 1)
    result, known = paired_test(a, b), stats.ttest_rel(a, b)
    interval = known.confidence_interval(0.95)
    assert result.p == pytest.approx(known.pvalue, rel=1e-6)
    assert (result.low, result.high) == pytest.approx((interval.low, interval.high), abs=1e-9)
    assert result.n == len(rows)


@given(TWO)
def test_turned_round_the_sign_turns_and_p_stays(rows):
    a, b = ([v[i] / 400 for v in rows] for i in (0, 1))
    one, other = paired_test(a, b), paired_test(b, a)
    assert other.difference == -one.difference and other.p == pytest.approx(one.p)
    assert (other.low is None) == (one.high is None)
    assert other.low is None or other.low == pytest.approx(-one.high, abs=1e-12)


@given(TWO, st.lists(st.integers(-50, 50), min_size=10, max_size=10))
def test_what_a_seed_does_to_both_changes_nothing(rows, moods):
    a, b = ([float(v[i]) for v in rows] for i in (0, 1))
    moved = paired_test([v + m for v, m in zip(a, moods, strict=False)], [v + m for v, m in zip(b, moods, strict=False)])
    assert moved == paired_test(a, b)


def test_the_interval_excludes_nothing_if_and_only_if_p_is_below_the_level():
    for gap in (0.0, 0.01, 0.02, 0.05, 0.2):
        result = paired_test([0.5 + gap, 0.6 + gap, 0.71 + gap, 0.68 + gap], [0.52, 0.59, 0.7, 0.7])
        assert (result.low > 0 or result.high < 0) == (result.p < 0.05)


def test_one_seed_has_a_difference_and_nothing_else():
    result = paired_test([0.9], [0.7])
    assert (result.low, result.high, result.p, result.n) == (None, None, None, 1)
    assert result.difference == pytest.approx(0.2)


def test_differences_that_are_all_alike_do_not_divide_by_nothing():
    assert paired_test([0.5, 0.6], [0.5, 0.6]).p == 1.0
    same = paired_test([0.9, 0.8, 0.7], [0.8, 0.7, 0.6])
    assert (same.p, same.low, same.high) == (0.25, None, None) and same.difference == pytest.approx(0.1)


@pytest.mark.parametrize("n", [2, 3, 6, 10])
def test_alike_differences_are_as_likely_as_a_row_of_heads(n):
    one = 1 / 360  # a single sample of a small test set, on every seed: nothing is certain about it
    result = paired_test([0.5 + one] * n, [0.5] * n)
    assert result.p == pytest.approx(stats.binomtest(n, n, 0.5).pvalue)


def test_a_single_sample_of_the_test_set_on_every_seed_is_no_certainty():
    one = 1 / 360
    alike = paired_test([0.5 + one] * 3, [0.5] * 3, grain=one)
    assert alike.p == pytest.approx(0.225, abs=1e-3) and alike.low < 0 < alike.high
    assert paired_test([0.9] * 3, [0.2] * 3, grain=one).p < 1e-4, "seventy points on every seed are"
    rough = [0.9, 0.7, 0.85], [0.7, 0.65, 0.6]
    assert paired_test(*rough, grain=one) == paired_test(*rough), "what spreads wider than a sample spreads as before"
    assert paired_test([0.5, 0.6], [0.5, 0.6], grain=one).p == 1.0


@pytest.mark.parametrize("seeds", [3, 4, 5])
def test_few_samples_do_not_make_winners_of_nobody(seeds):
    random, one, won = np.random.default_rng(3), 1 / 100, 0
    for _ in range(400):  # each arm has a sample more than the other on every seed, by the flip of a coin
        a, b = random.integers(0, 2, (2, seeds)) * one
        won += (paired_test(a.tolist(), b.tolist(), grain=one).p or 0.0) < 0.05
    assert won <= 20


def test_only_common_seeds_are_paired():
    result = paired_test_by_seed({1: 0.9, 2: 0.8, 7: 0.1}, {2: 0.6, 1: 0.5, 9: 0.9})
    assert result is not None and result.n == 2 and result.difference == pytest.approx(0.3)
    assert paired_test_by_seed({1: 0.9}, {2: 0.8}) is None
    with pytest.raises(BadInput, match="for every seed"):
        paired_test([0.1, 0.2], [0.1])


def test_holm_by_hand():
    # Sorted .005 .01 .03 .04 times 4 3 2 1 is .02 .03 .06 .04, and the last may not fall below the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0] and holm([]) == []


@given(PS)
def test_holm_keeps_the_order_lies_between_p_and_bonferroni_and_skips_what_was_not_tested(ps):
    result = holm(ps)
    assert [result[i] for i in sorted(range(len(ps)), key=ps.__getitem__)] == sorted(result)
    assert all(p <= f <= min(1.0, p * len(ps)) + 1e-15 for p, f in zip(ps, result, strict=True))
    assert holm([None, *ps, None]) == [None, *result, None]


FLEETS, SEEDS = 4, 6
CELLS = [(seed, fleet) for seed in range(SEEDS) for fleet in range(FLEETS)]
CROSSED = {cell: {"fleets": cell[1], "trainings": cell[0]} for cell in CELLS}


def effects(random, fleet=0.05, training=0.0, rest=0.01):
    by_fleet, by_seed = random.normal(0, fleet, FLEETS), random.normal(0, training, SEEDS)
    return {(s, f): float(by_fleet[f] + by_seed[s] + random.normal(0, rest)) for s, f in CELLS}


def test_seeds_of_their_own_change_nothing():
    own = {i: {"fleets": i, "trainings": i} for i in range(5)}
    a, b = {i: 0.5 + 0.02 * i * i for i in own}, dict.fromkeys(own, 0.5)
    assert shared_parts(list(own.values())) == {} and paired_test_over(a, b, own) == paired_test_by_seed(a, b)
    assert mean_over(list(a.values()), list(own.values())) == mean_of(list(a.values()))
    assert shared_parts([{"fleets": 3}] * 4) == {}, "a fleet that all runs have says nothing of others, and is not redrawn"
    assert paired_test_over(a, {9: 1.0}, own) is None and mean_over([0.5], [{"fleets": 1}]).low is None


def test_the_fleets_count_where_they_differ_and_the_seeds_where_these_do():
    random = np.random.default_rng(1)
    flat = dict.fromkeys(CELLS, 0.0)
    by_fleet = paired_test_over(effects(random), flat, CROSSED)
    assert by_fleet is not None and (by_fleet.unit, by_fleet.n) == ("fleets", FLEETS)
    by_seed = paired_test_over(effects(random, fleet=0.0, training=0.05), flat, CROSSED)
    assert by_seed is not None and (by_seed.unit, by_seed.n) == ("trainings", SEEDS)


@pytest.mark.parametrize(("fleet", "training"), [(0.05, 0.0), (0.0, 0.05), (0.0, 0.0)])
def test_nothing_is_found_where_nothing_is_and_the_mean_is_covered(fleet, training):
    random, flat = np.random.default_rng(2), dict.fromkeys(CELLS, 0.0)
    false, naive, covered = 0, 0, 0
    for _ in range(150):
        result = effects(random, fleet, training)
        one, plain = paired_test_over(result, flat, CROSSED), paired_test_by_seed(result, flat)
        false += one is not None and one.p is not None and one.p < 0.05
        naive += plain is not None and plain.p is not None and plain.p < 0.05
        mean = mean_over(list(result.values()), list(CROSSED.values()))
        covered += mean.low is not None and mean.high is not None and mean.low <= 0.0 <= mean.high
    assert false <= 15 and covered >= 135
    assert naive > 45 or not fleet + training, "what all runs together would have claimed"
