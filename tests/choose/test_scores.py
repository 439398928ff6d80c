"""Scores: utility as in the paper, ranks and draws that no order of clients changes."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.choose.scores import (
    best,
    largest,
    normalise_utility,
    penalise_slow,
    pick_number,
    preferred_seconds,
    round_at_random,
    statistical_utility,
    temporal_uncertainty,
    value_at_rank,
    weighted_sample,
)
from fedfleet.core.parts import Draw
from fedfleet.core.rng import client_keys, hash_keys, stream

pytestmark = pytest.mark.slow

law = settings(deadline=None, derandomize=True, max_examples=200)
utilities = st.lists(st.floats(0, 1e6, width=32), min_size=1, max_size=40).map(lambda v: np.array(v, np.float32))


@law
@given(st.floats(1, 1e6), st.floats(0, 1e12), st.floats(0, 1e12))
def test_who_loses_more_is_worth_more(samples, one, other):
    low, high = statistical_utility(np.full(2, samples), np.sort([one, other]))
    assert low <= high and low == pytest.approx(samples * math.sqrt(min(one, other)))


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_a_loss_that_is_no_number_tells_nothing(odd):
    assert np.isnan(statistical_utility(np.array([3.0]), np.array([odd]))).all()
    assert statistical_utility(np.array([1e300]), np.array([1e300])) < np.finfo(np.float32).max


@law
@given(utilities, st.floats(0, 1))
def test_spreading_keeps_the_order_and_lies_between_zero_and_one(utility, clip):
    result = normalise_utility(utility, clip)
    assert (result >= 0).all() and (result <= 1.0 + 1e-5).all()
    assert (np.diff(result[np.argsort(utility, kind="stable")]) >= 0).all()
    ceiling = np.sort(utility)[min(int(len(utility) * clip), len(utility) - 1)]
    assert len(set(result[utility >= ceiling].tolist())) == 1, "whoever is above the quantile counts alike"


def test_who_was_seen_long_ago_is_less_certain():
    result = temporal_uncertainty(np.array([1, 10, 100], np.int32), 100, 0.1)
    assert result == pytest.approx([math.sqrt(0.1 * math.log(100) / last) for last in (1, 10, 100)])
    assert not temporal_uncertainty(np.array([1], np.int32), 1, 0.1).any()


@law
@given(st.floats(1, 1e4, width=32), st.floats(1.0, 100.0, width=32), st.floats(0.0, 4.0))
def test_whoever_is_r_times_slower_scores_less_by_r_to_the_penalty(preferred, ratio, penalty):
    seconds = np.array([preferred, np.float32(preferred) * np.float32(ratio)], np.float32)
    result = penalise_slow(np.ones(2, np.float32), seconds, preferred, penalty)
    assert result[0] == 1.0
    assert result[1] == pytest.approx(ratio**-penalty, rel=1e-4)
    assert penalise_slow(np.ones(2, np.float32), seconds, math.inf, penalty).tolist() == [1.0, 1.0]


def test_the_preferred_duration_is_a_quantile_of_what_is_known():
    seconds = np.array([0, 7, np.inf, 3, 9, 0, 5, 1], np.float32)  # five are known
    assert [preferred_seconds(seconds, share) for share in (0.0, 0.2, 0.5, 0.99)] == [1.0, 3.0, 5.0, 9.0]
    assert preferred_seconds(seconds, 1.0) == preferred_seconds(np.zeros(3, np.float32), 0.1) == math.inf


@law
@given(st.lists(st.floats(2.0**-10, 10, width=32), min_size=1, max_size=30), st.integers(0, 35), st.integers(0, 5))
def test_a_race_equals_one_in_which_everyone_runs_to_the_end(weights, n, seed):
    luck, mine = hash_keys(seed, "race", client_keys(len(weights))), np.array(weights, np.float32)
    times = -np.log1p(-(luck >> np.uint64(11)).astype(np.float64) * 2.0**-53) / mine
    assert weighted_sample(mine, luck, n).tolist() == np.argsort(times)[:n].tolist()


def test_chances_go_by_weight_and_nobody_is_drawn_twice():
    weights, draws = np.array([1.0, 2.0, 3.0, 0.0], np.float32), 6000
    result = [tuple(weighted_sample(weights, hash_keys(s, "x", client_keys(4)), 2).tolist()) for s in range(draws)]
    for first, second in itertools.permutations(range(3), 2):
        chance = weights[first] / 6 * weights[second] / (6 - weights[first])
        seen = sum(pair == (first, second) for pair in result)
        assert abs(seen - draws * chance) < 4 * math.sqrt(draws * chance)
    assert not any(3 in pair for pair in result)
    assert sorted(weighted_sample(weights, hash_keys(1, "x", client_keys(4)), 4).tolist()) == [0, 1, 2, 3]


PATTERNS = {
    "spread": lambda n: hash_keys(1, "v", client_keys(n)).astype(np.float32),
    "half nothing": lambda n: np.where(np.arange(n) % 2, 0.0, np.arange(n)).astype(np.float32),
    "all equal": lambda n: np.ones(n, np.float32),
    "ascending": lambda n: np.arange(n, dtype=np.float32),
    "some infinite": lambda n: np.where(np.arange(n) % 7, np.arange(n), np.inf).astype(np.float32),
}


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("n", [1, 10, 70_000, 200_001])
def test_ranks_are_those_of_a_full_sort(pattern, n):
    values = PATTERNS[pattern](n)
    full = np.sort(values)
    for rank in {0, n // 1000, n // 10, n // 2, n - n // 100 - 1, n - 1}:
        assert value_at_rank(values, rank) == full[rank]


def test_a_rank_that_some_values_mislead_about_is_found_all_the_same():
    values = np.zeros(100_000, np.float32)
    values[np.arange(1 << 13) * 2_654_435_761 % 100_000] = np.arange(1 << 13)  # just those that are looked at first
    assert [value_at_rank(values, rank) for rank in (50_000, 91_000, 99_999)] == [
        0.0,
        *np.sort(values)[[91_000, 99_999]],
    ]


@law
@given(st.lists(st.integers(0, 5), max_size=30), st.integers(-1, 35))
def test_the_largest_and_of_equal_ones_the_luckiest(values, n):
    column, luck = np.array(values, np.float32), hash_keys(3, "t", client_keys(len(values)))
    result = largest(column, n, lambda at: luck[at])
    expected = np.lexsort((luck, -column))[: max(n, 0)]
    assert sorted(result.tolist()) == sorted(expected.tolist())


scores = st.lists(st.one_of(st.integers(0, 3).map(float), st.sampled_from([np.nan, np.inf, -np.inf])), max_size=60)


@settings(deadline=None, derandomize=True, max_examples=150)
@given(scores, st.integers(0, 70))
def test_it_equals_a_full_sort(values, n):
    column, keys, draw = np.array(values, np.float64), client_keys(len(values)), Draw(3, 1, 2)
    luck = hash_keys(3, "x", keys, pick_number(draw))
    full = np.lexsort((luck, -np.where(np.isnan(column), -np.inf, column)))
    assert best(column, keys, n, draw, "x").tolist() == full[:n].tolist()


def test_many_candidates_of_one_score_are_drawn_evenly():
    keys = client_keys(20)
    counts = np.bincount(np.concatenate([best(np.zeros(20), keys, 5, Draw(1, r), "x") for r in range(2000)]), minlength=20)
    assert 4 < ((counts - 500) ** 2 / 500).sum() / 0.75 < 50  # 19 degrees of freedom


def test_ties_follow_keys_and_not_places():
    keys, order = client_keys(40), stream(0, "names").permutation(40)
    score = np.arange(40.0) // 8
    before = best(score, keys, 13, Draw(5, 2), "x")
    assert order[best(score[order], keys[order], 13, Draw(5, 2), "x")].tolist() == before.tolist()


def test_fractions_are_right_on_average():
    result = [round_at_random(2.3, Draw(0, r), "x") for r in range(4000)]
    assert set(result) == {2, 3}
    assert np.mean(result) == pytest.approx(2.3, abs=0.03)
    assert {round_at_random(4.0, Draw(0, r), "x") for r in range(50)} == {4}
