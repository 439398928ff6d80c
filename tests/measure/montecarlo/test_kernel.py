"""The fast simulation gives what the literal one gives, draw by draw."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.fleet import (
    StateTable,
    device_table,
    take_devices,
    take_states,
    unshared_devices,
    unshared_states,
)
from fedfleet.measure.montecarlo import reference_simulation
from fedfleet.measure.montecarlo.metrics import simulate, simulate_compiled
from fedfleet.measure.montecarlo.settings import Settings
from tests.worlds import spans_within, traces_of

pytestmark = pytest.mark.slow


@st.composite
def tables(draw):
    """A small random fleet: speeds in lists, integer traces that start before or after the clock does."""
    n = draw(st.integers(1, 9))
    speeds = st.lists(st.sampled_from([1000.0, 20000.0, 33333.0, 45000.0, 60000.0, 1e5]), min_size=1, max_size=4)
    up = [draw(speeds) if draw(st.booleans()) else [] for _ in range(n)]
    devices = device_table([str(i) for i in range(n)], [draw(speeds) for _ in range(n)], [0.3] * n, up)
    periods = [draw(st.integers(5, 900)) for _ in range(n)]
    starts = [float(draw(st.integers(-500, 3000))) for _ in range(n)]
    spans = [draw(spans_within(p)) for p in periods]
    return devices, StateTable(np.array([str(i) for i in range(n)]), traces_of(spans, periods, starts))


@settings(deadline=None, derandomize=True, max_examples=150)
@given(
    tables(),
    st.sampled_from(["device", "state", "both"]),
    st.sampled_from(["paper", "released"]),
    st.booleans(),
    st.sampled_from([0.0, 7.0, 31.5, 60.0, 240.0]),
    st.integers(0, 1000),
    st.booleans(),
)
def test_fast_and_literal_agree_on_the_same_draws(fleet, part, semantics, by_deadline, t_cost, seed, shared):
    devices, states = fleet
    if shared:
        clients = np.arange(2 * len(devices)) * (seed + 1) % len(devices)
        devices, states = take_devices(devices, clients), take_states(states, clients[::-1])
    d, s = (devices if part != "state" else None), (states if part != "device" else None)
    k = 1 + seed % len(devices)
    asked = Settings(k, 30, 60, 60.0, 0.8, semantics=semantics, samples=2.0)
    fast, t_fast = simulate_compiled(asked, d, s, seed=seed, t_cost=t_cost, by_deadline=by_deadline)
    slow, t_slow = reference_simulation.simulate(asked, d, s, seed=seed, t_cost=t_cost, by_deadline=by_deadline)
    assert fast.tolist() == slow
    assert t_fast == t_slow
    if shared:
        d, s = d and unshared_devices(d), s and unshared_states(s)
        alone, t_alone = simulate_compiled(asked, d, s, seed=seed, t_cost=t_cost, by_deadline=by_deadline)
        assert (alone.tolist(), t_alone) == (slow, t_slow), "sharing rows changes nothing"


def test_many_clients_take_the_other_ways_of_choosing():
    # Few ready of many, more than 2k ready, and fewer than 2k: all three branches, against the literal version.
    n = 400
    spans = [((float(i % 50), float(i % 50 + (300 if i % 40 else 20))),) for i in range(n)]
    states = StateTable(np.array([str(i) for i in range(n)]), traces_of(spans, [1000.0] * n))
    for k in (2, 9, 150):
        asked = Settings(k, 120, 3000, 40.0, 0.8)
        for by_deadline in (True, False):
            fast = simulate_compiled(asked, None, states, seed=k, t_cost=33.0, by_deadline=by_deadline)
            slow = reference_simulation.simulate(asked, None, states, seed=k, t_cost=33.0, by_deadline=by_deadline)
            assert fast[0].tolist() == slow[0]
            assert fast[1] == slow[1]


def test_a_small_fleet_is_simulated_without_the_compiled_kernel(monkeypatch):
    devices = device_table([str(i) for i in range(30)], [[2e4 + 1e3 * i] for i in range(30)], [0.1] * 30)
    asked, kernel = Settings(5, 50, 250, 200.0), "fedfleet.measure.montecarlo.kernel"
    result = simulate_compiled(asked, devices, None, seed=3, t_cost=0.0, by_deadline=True)
    monkeypatch.delitem(sys.modules, kernel)
    small = simulate(asked, devices, None, seed=3, t_cost=0.0, by_deadline=True)
    assert kernel not in sys.modules
    assert small[0].tolist() == result[0].tolist()
    assert small[1] == result[1]
