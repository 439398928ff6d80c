"""Restarts: pauses grow, end, and are forgotten after a calm life."""

from hypothesis import given
from hypothesis import strategies as st

from fedfleet.network.pool.restart_rule import RestartRule, Restarts


@given(st.integers(0, 20), st.floats(0.01, 5.0), st.floats(5.0, 50.0))
def test_pauses_never_shrink_nor_pass_the_longest_and_end_at_the_limit(limit, first, longest):
    restarts = Restarts(RestartRule(first, longest, limit))
    pauses = [restarts.pause(0.0) for _ in range(limit + 3)]
    assert pauses[limit:] == [None] * 3
    assert pauses[:limit] == sorted(pauses[:limit])
    assert all(first <= pause <= longest for pause in pauses[:limit])
    assert restarts.total == limit + 3


def test_a_long_life_is_forgiven():
    restarts = Restarts(RestartRule(first=1.0, longest=60.0, limit=2, calm=60.0))
    assert [restarts.pause(1.0), restarts.pause(1.0)] == [1.0, 2.0]
    assert restarts.pause(61.0) == 1.0
    assert restarts.total == 3


def test_a_device_that_dies_at_once_again_and_again_stays_down():
    restarts = Restarts(RestartRule(limit=3))
    assert [restarts.pause(0.0) is None for _ in range(5)] == [False, False, False, True, True]
