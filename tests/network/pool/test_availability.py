"""What changes from look to look is what the states and faults of the simulation say, no more and no less."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core.rng import client_keys
from fedfleet.core.sources import DataSource, DeviceSource, World
from fedfleet.network.pool.availability import Availability
from fedfleet.world.faults import crashes, reachable_states
from fedfleet.world.states import always_on, daily

KEYS = client_keys(30)
NOBODY = DataSource(
    lambda *_: np.zeros(0, np.int64), lambda _: np.zeros(30, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
)
DEVICES = DeviceSource(lambda clients, *_: np.zeros(len(clients)), ["a"] * 30)


def world(states, faults=None):
    faults = None if faults is None else faults(KEYS, 4)
    return World(KEYS, DEVICES, reachable_states(states(KEYS, 4), faults), NOBODY, faults=faults)


@given(st.lists(st.floats(0.0, 5000.0), min_size=1, max_size=60), st.booleans())
def test_changes_add_up_to_what_the_simulation_says(times, with_faults):
    made = world(daily(day=600.0, sessions=4), crashes(rate=0.5, seconds=60.0, period=300.0) if with_faults else None)
    looked, online, crashed = Availability(made), np.ones(30, np.bool_), np.zeros(30, np.int64)
    before = np.zeros(30, np.bool_)
    for time in sorted(times):
        changes = looked.look(time)
        assert online[changes.offline].all()
        assert not online[changes.online].any()
        online[changes.offline], online[changes.online] = False, True
        np.testing.assert_array_equal(online, made.states.online(time))
        away = made.faults.away(time) if with_faults else np.zeros(30, np.bool_)
        np.testing.assert_array_equal(np.isin(np.arange(30), changes.crashed), away & ~before)
        before = np.array(away)
        crashed[changes.crashed] += 1
        assert not online[changes.crashed].any()


def test_a_fleet_that_is_always_there_need_not_be_looked_at():
    assert Availability(world(always_on())).constant
    assert not Availability(world(daily())).constant
    assert not Availability(world(always_on(), crashes())).constant
