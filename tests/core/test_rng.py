"""Addressed randomness: a draw is a function of its address alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core.rng import address, attackers, client_keys, hash_keys, orders, stream, uniforms

KEYS = client_keys(1000)


def test_same_address_same_draw():
    assert np.array_equal(stream(7, "select", 3).random(5), stream(7, "select", 3).random(5))


@pytest.mark.parametrize("other", [(8, "select", 3), (7, "selecu", 3), (7, "select", 4), (7, "select"), (7, "select", 3, 0)])
def test_another_address_gives_another_draw(other):
    assert not np.array_equal(stream(7, "select", 3).random(5), stream(*other).random(5))
    assert address(7, "select", 3) != address(*other)


def test_label_and_ids_cannot_run_into_each_other():
    assert address(1, "ab") != address(1, "a", ord("b"))


def test_negative_and_large_numbers_are_addresses_too():
    assert len({address(s, "x", i) for s in (-1, 0, 2**64) for i in (-5, 0, 2**63)}) == 9


@pytest.mark.parametrize("number", [0, 5, -1, 2**63 - 1])
def test_a_scalar_column_equals_an_array_column(number):
    column = np.full(len(KEYS), number, np.int64)
    assert np.array_equal(hash_keys(1, "a", KEYS, number, 2), hash_keys(1, "a", KEYS, column, 2))


def test_the_order_of_columns_matters():
    assert not np.array_equal(hash_keys(1, "a", KEYS, 2, 3), hash_keys(1, "a", KEYS, 3, 2))


@pytest.mark.parametrize("other", [(2, "a", 5), (1, "b", 5), (1, "a", 6)])
def test_hashes_differ_by_seed_label_and_column(other):
    seed, label, column = other
    assert not np.any(hash_keys(1, "a", KEYS, 5) == hash_keys(seed, label, KEYS, column))


def test_a_hash_depends_on_the_key_and_not_on_its_place():
    order = stream(0, "shuffle").permutation(len(KEYS))
    assert np.array_equal(hash_keys(1, "a", KEYS, 5)[order], hash_keys(1, "a", KEYS[order], 5))
    assert hash_keys(1, "a", KEYS[17:18], 5)[0] == hash_keys(1, "a", KEYS, 5)[17]


def test_hashing_leaves_the_keys_alone():
    before = KEYS.copy()
    hash_keys(1, "a", KEYS, 5)
    assert np.array_equal(KEYS, before)


def test_uniforms_are_uniform():
    u = uniforms(4, "u", client_keys(100_000))
    assert u.dtype == np.float64
    assert u.min() >= 0.0
    assert u.max() < 1.0
    counts = np.histogram(u, bins=20, range=(0, 1))[0]
    # Chi-square with 19 degrees of freedom: beyond 50 has a chance of 0.0001.
    assert ((counts - 5000) ** 2 / 5000).sum() < 50
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.02


def test_neighbouring_rounds_are_independent():
    a, b = (uniforms(4, "u", KEYS, r) for r in (0, 1))
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.12


def test_client_keys_of_numbers_are_distinct_and_do_not_depend_on_how_many_there_are():
    assert len(np.unique(KEYS)) == len(KEYS)
    assert np.array_equal(client_keys(10), KEYS[:10])


def test_client_keys_of_names_follow_the_name():
    assert client_keys(["ann", "bob"])[1] == client_keys(["bob"])[0]
    assert client_keys(["ann"])[0] != client_keys(["bob"])[0]


def test_keys_of_several_seeds_are_hashed_as_those_of_each():
    keys, tasks = np.arange(4, dtype=np.uint64), np.arange(4)
    mixed = orders([5, 6, 5, 7], keys, tasks, 2, 9)
    for row, seed in enumerate((5, 6, 5, 7)):
        assert np.array_equal(mixed[row], orders(seed, keys, tasks, 2, 9)[row])
    assert not np.array_equal(mixed[1], orders(5, keys, tasks, 2, 9)[1])


@given(st.integers(0, 2**40), st.integers(1, 60), st.floats(0, 1))
def test_so_many_attack_as_were_asked_for(seed, clients, share):
    assert attackers(seed, client_keys(clients), share, clients).sum() == round(share * clients)


@given(st.integers(0, 99), st.permutations(range(12)))
def test_a_renamed_client_stays_what_it_is_and_needs_no_others_to_know(seed, order):
    keys = client_keys(12)
    whole = attackers(seed, keys, 0.3, 12)
    assert np.array_equal(attackers(seed, keys[list(order)], 0.3, 12), whole[list(order)])
    assert [bool(attackers(seed, keys[i : i + 1], 0.3, 12)[0]) for i in range(12)] == whole.tolist()


def test_a_larger_share_has_the_smaller_one_in_it():
    few, many = (attackers(5, client_keys(40), share, 40) for share in (0.2, 0.5))
    assert (many | few).sum() == many.sum() == 20
