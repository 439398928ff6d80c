"""Ranking: a partial sort that equals the full one, ties by key, draws in proportion, fractions right on average."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.choose.ranks import best, pick_number, round_at_random
from fedfleet.core.parts import Draw
from fedfleet.core.rng import client_keys, hash_keys, stream

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
    counts = np.bincount(
        np.concatenate([best(np.zeros(20), keys, 5, Draw(1, r), "x") for r in range(2000)]), minlength=20
    )
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
