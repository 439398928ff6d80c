"""Uniform selection: fair, addressed by key, and a partial sort that equals the full one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.choose.uniform import smallest, uniform
from fedfleet.core.parts import Draw
from fedfleet.core.records import Roster
from fedfleet.core.rng import client_keys, hash_keys, stream


def roster(keys):
    return Roster(np.arange(len(keys)), keys, np.full(len(keys), 10))


def picks(keys, n, rounds, seed=5):
    return [uniform().pick({}, roster(keys), n, Draw(seed, r)).clients for r in range(rounds)]


def test_everyone_has_the_same_chance():
    clients, n, rounds = 20, 5, 2000
    counts = np.bincount(np.concatenate(picks(client_keys(clients), n, rounds)), minlength=clients)
    expected = n * rounds / clients
    # Drawing without replacement shrinks the variance by 1 - n/N; chi-square with 19 degrees of freedom then lies
    # between 4 and 50 but for one seed in a thousand.
    statistic = ((counts - expected) ** 2 / expected).sum() / (1 - n / clients)
    assert 4 < statistic < 50


def test_pairs_are_picked_together_as_often_as_chance_has_it():
    together = np.zeros((8, 8))
    for chosen in picks(client_keys(8), 2, 4000):
        together[chosen.min(), chosen.max()] += 1
    pairs = together[np.triu_indices(8, 1)]
    assert ((pairs - pairs.mean()) ** 2 / pairs.mean()).sum() < 60  # 27 degrees of freedom


def test_nobody_is_picked_twice_and_the_work_is_whole():
    asked = uniform().pick({}, roster(client_keys(50)), 20, Draw(1, 0))
    assert len(set(asked.clients.tolist())) == 20
    assert not asked.steps.any()
    assert (asked.share == 1.0).all()


def test_the_choice_follows_the_keys_and_not_the_index():
    keys = client_keys(40)
    order = stream(0, "names").permutation(40)
    before, after = picks(keys, 7, 5), picks(keys[order], 7, 5)
    assert [order[chosen].tolist() for chosen in after] == [chosen.tolist() for chosen in before]


def test_a_clients_luck_does_not_depend_on_who_else_is_there():
    keys = client_keys(40)
    full = picks(keys, 40, 1)[0]
    half = uniform().pick({}, Roster(np.arange(20), keys[:20], np.full(20, 1)), 20, Draw(5, 0)).clients
    assert [c for c in full if c < 20] == half.tolist()


def test_rounds_and_seeds_differ():
    keys = client_keys(100)
    first, second = picks(keys, 10, 2)
    assert first.tolist() != second.tolist()
    assert first.tolist() != picks(keys, 10, 1, seed=6)[0].tolist()


def test_every_pick_of_a_round_is_a_draw_of_its_own():
    there = roster(client_keys(100))
    first, second = (uniform().pick({}, there, 10, Draw(5, 0, task)).clients.tolist() for task in (0, 10))
    assert first != second
    assert first == uniform().pick({}, there, 10, Draw(5, 0, 0)).clients.tolist()


@pytest.mark.parametrize("n", [0, 3, 5])
def test_as_many_as_there_are(n):
    assert len(picks(client_keys(3), n, 1)[0]) == min(n, 3)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.lists(st.integers(0, 2**64 - 1), unique=True, max_size=60), st.integers(0, 70))
def test_smallest_equals_a_full_sort(values, n):
    column = np.array(values, np.uint64)
    assert smallest(column, n).tolist() == np.argsort(column, kind="stable")[:n].tolist()


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(0, 70))
def test_ties_are_picked_once_each(values, n):
    column = np.array(values, np.uint64)
    places = smallest(column, n)
    assert len(set(places.tolist())) == len(places) == min(n, len(column))
    assert column[places].tolist() == sorted(values)[:n]


def test_smallest_of_values_that_are_not_spread_like_hashes():
    column = np.arange(2**64 - 200, 2**64 - 100, dtype=np.uint64)[::-1]
    assert smallest(column, 3).tolist() == [99, 98, 97]


@pytest.mark.parametrize("n", [1, 100, 1000, 5000, 19_999])
def test_smallest_of_many_hashes(n):
    column = hash_keys(1, "x", client_keys(20_000))
    assert np.array_equal(smallest(column, n), np.argsort(column, kind="stable")[:n])
