"""Clients that go down and return: how often, for how long, together or alone; who can be reached meanwhile."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.errors import BadInput
from fedfleet.core.rng import client_keys
from fedfleet.testing import check_state_source
from fedfleet.world.downtime import crashes, outages, reachable_states
from fedfleet.world.faults import lossy
from fedfleet.world.states import always_on, daily

pytestmark = pytest.mark.slow

KEYS = client_keys(200)
EVERYONE = np.arange(200)


def seen(source, times):
    return np.stack([source.away(float(t)) for t in times])


def test_clients_are_down_for_their_share_of_the_time():
    source = crashes(rate=0.4, seconds=90.0, period=360.0)(KEYS, 1)
    assert seen(source, np.arange(0.0, 72_000.0, 37.0)).mean() == pytest.approx(0.4 * 0.25, rel=0.05)


def test_who_goes_down_stays_so_for_its_seconds_and_at_most_once_in_a_window():
    source = crashes(rate=1.0, seconds=50.0, period=200.0)(KEYS[:20], 1)
    for window in range(5):
        down = seen(source, window * 200.0 + np.arange(200))
        assert (down.sum(axis=0) == 50).all()
        assert (np.diff(down.astype(int), axis=0, prepend=0, append=0) == 1).sum() == 20


def test_clients_crash_alone_and_groups_together():
    alone, together = crashes(rate=0.5)(KEYS, 1), outages(rate=0.5, period=3600.0, groups=4)(KEYS, 1)
    times = np.arange(0.0, 100_000.0, 333.0)
    patterns = np.unique(seen(together, times).T, axis=0)
    assert len(patterns) == 4
    assert len(np.unique(seen(alone, times).T, axis=0)) > 150


def test_a_task_is_struck_at_the_first_moment_at_which_its_client_is_down():
    source = crashes(rate=0.3, seconds=64.0, period=256.0)(KEYS, 1)
    start = 1000.0
    ends = start + 50.0 * EVERYONE
    struck = source.draw(EVERYONE, start, ends, EVERYONE).crash
    down = seen(source, np.arange(start, ends.max(), 1.0))
    for client in EVERYONE.tolist():
        mine = np.flatnonzero(down[: int(ends[client] - start), client])
        if len(mine):
            assert start + mine[0] - 1 < struck[client] <= start + mine[0]
        else:
            assert struck[client] == math.inf or struck[client] > ends[client] - 1
    assert 20 < np.isfinite(struck).sum() < 199


def test_who_is_down_when_its_task_comes_loses_it_at_once():
    source = crashes(rate=1.0, seconds=200.0, period=200.0)(KEYS[:5], 1)
    assert source.draw(np.arange(5), 17.0, np.full(5, 30.0), np.arange(5)).crash.tolist() == [17.0] * 5
    assert np.isinf(source.draw(np.arange(5), 17.0, np.full(5, 17.0), np.arange(5)).crash).all()  # it takes no time


def test_a_task_that_never_ends_is_not_followed_for_ever():
    rare = crashes(rate=1e-9)(KEYS, 1)
    assert np.isinf(rare.draw(EVERYONE[:3], 0.0, np.full(3, 1e15), EVERYONE[:3]).crash).all()
    often = crashes(rate=0.5)(KEYS, 1)
    assert np.isfinite(often.draw(EVERYONE, 0.0, np.full(200, 1e15), EVERYONE).crash).all()


def test_down_for_longer_than_a_period_is_bad_input():
    for make in (crashes, outages):
        with pytest.raises(BadInput, match=r"seconds = 90 does not fit into period = 60"):
            make(seconds=90.0, period=60.0)


# ---- who can be reached -------------------------------------------------------------------------------------------


def test_states_without_downtime_are_as_they_were():
    states = always_on()(KEYS, 1)
    assert reachable_states(states, None) is states
    assert reachable_states(states, lossy()(KEYS, 1)) is states


@pytest.mark.parametrize("states", [always_on(), daily(sessions=8, ready=0.6)])
def test_whom_nobody_can_reach_is_not_online(states):
    source = outages(rate=0.5, seconds=2000.0, period=7200.0, groups=3)(KEYS[:30], 1)
    inner = states(KEYS[:30], 1)
    under = reachable_states(inner, source)
    for t in np.arange(0.0, 50_000.0, 911.0).tolist():
        assert np.array_equal(under.online(t), inner.online(t) & ~source.away(t))
    check_state_source(under, 30)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(0, 1000), st.integers(1, 6), st.integers(0, 3000), st.sampled_from([0.2, 0.6, 1.0]))
def test_the_first_moment_at_which_enough_are_up(seed, n, start, rate):
    # Down for whole seconds from whole seconds on, so that looking at every second finds all there is.
    keys = client_keys(6)
    source = crashes(rate=rate, seconds=512.0, period=512.0)(keys, seed)
    under = reachable_states(always_on()(keys, 0), source)
    among = np.arange(6) % 5 > 0 if seed % 2 else np.ones(6, np.bool_)
    until = start + 5000.0
    looks = [t for t in range(start, start + 5000) if np.count_nonzero(under.online(float(t)) & among) >= n]
    expected = float(looks[0]) if looks else math.inf
    assert under.earliest(among, n, float(start), until) == expected
