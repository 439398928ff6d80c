"""Who attacks: exactly the share that was asked for, the same for everyone who asks, whatever clients are called."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core.attackers import attackers
from fedfleet.core.rng import client_keys


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
