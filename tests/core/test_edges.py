"""The layer between device and server: whose device is whose, and what a turn is unless somebody says otherwise."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core.edges import MAX_SYNCS, EdgeRule, NestedPass, Sync, Turn, UserSource
from fedfleet.learn.fedavg import fedavg


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20))
def test_every_device_belongs_to_exactly_one_user(user_of):
    users = UserSource(np.array(user_of))
    result = [users.devices_of(user).tolist() for user in range(len(users))]
    assert sorted(device for own in result for device in own) == list(range(len(user_of)))
    assert all(own == sorted(own) for own in result)
    assert all(user_of[device] == user for user, own in enumerate(result) for device in own)


def test_users_are_counted_up_to_the_last_even_where_one_has_nothing():
    users = UserSource(np.array([0, 3, 0]))
    assert len(users) == 4
    assert users.devices_of(1).tolist() == []
    assert users.devices_of(9).tolist() == []


def test_everyone_may_be_a_user_alone():
    users = UserSource(np.arange(4))
    assert len(users) == 4
    assert [users.devices_of(u).tolist() for u in range(4)] == [[0], [1], [2], [3]]


def test_a_turn_that_says_nothing_takes_no_time_and_leaves_the_weights_alone():
    turn, other = Turn((), ()), Turn((), ())
    assert (turn.planning, turn.exchange, turn.weight, turn.memory, turn.stats) == (0.0, None, None, {}, {})
    assert turn.memory is not other.memory
    assert Sync(np.arange(2), ()).steps == 0  # what the algorithm says


def test_averages_number_tasks_and_so_have_a_limit():
    assert MAX_SYNCS > 1
    assert MAX_SYNCS & (MAX_SYNCS - 1) == 0  # a power of two: a turn's tasks never meet those of the next


def test_a_nested_pass_is_a_value():
    rule, inner = EdgeRule("still", lambda visits: []), fedavg()
    one, other = (NestedPass(inner, rule, None) for _ in range(2))
    assert one == other
    with pytest.raises(FrozenInstanceError):
        one.rule = None
