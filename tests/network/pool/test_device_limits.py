"""Limits are what the fleet itself says of a task: its seconds, turned into rates and shares."""

import numpy as np
import pytest

from fedfleet.core.cost import TRAINING_PASSES
from fedfleet.core.records import Cost
from fedfleet.core.rng import client_keys
from fedfleet.network.pool.device_limits import LEAST_SHARE, FleetLimits
from fedfleet.world.devices import homogeneous, spread
from fedfleet.world.faults import slowed
from fedfleet.world.samplers.pool72 import DELAYS_MS, KBPS, MEMORY_MB, pool72

CLIENTS = 200


def device_limits(devices, clients, *, cores=1.0):
    return FleetLimits(devices, clients, cores=cores).first


FLEETS = {
    "homogeneous": homogeneous(mbps=10.0),
    "spread": spread(link=1.0, compute=0.7, jitter=0.2),
    "pool72": pool72(distribution="uniform", reallocate=False),
    "pool72 by trips": pool72(distribution="uniform"),
}


@pytest.mark.parametrize("name", FLEETS)
def test_a_transfer_takes_as_long_as_in_the_simulation(name):
    source = FLEETS[name](client_keys(CLIENTS), 3)
    limits = device_limits(source, CLIENTS)
    cost = Cost(np.full(CLIENTS, 7.0), np.full(CLIENTS, 3e6), np.full(CLIENTS, 2e6))
    simulated = source.seconds(np.arange(CLIENTS), cost, 0.0, np.zeros(CLIENTS, np.int64))
    emulated = [2.0 * one.delay + 3e6 / one.down + 2e6 / one.up + 7.0 * TRAINING_PASSES * one.seconds_per_sample for one in limits]
    np.testing.assert_allclose(emulated, simulated, rtol=1e-9)


@pytest.mark.parametrize("name", FLEETS)
def test_the_fastest_device_gets_the_cores_and_the_others_by_their_seconds(name):
    limits = device_limits(FLEETS[name](client_keys(CLIENTS), 3), CLIENTS, cores=0.5)
    fastest = min(limits, key=lambda one: one.seconds_per_sample)
    assert fastest.cpu_share == 0.5
    for one in limits:
        assert one.cpu_share == pytest.approx(0.5 * fastest.seconds_per_sample / one.seconds_per_sample)


def test_the_pool_of_72_gives_what_its_table_says():
    limits = device_limits(FLEETS["pool72"](client_keys(CLIENTS), 3), CLIENTS)
    assert {one.memory_mb for one in limits} == {float(mb) for mb in MEMORY_MB}
    assert {round(one.down * 8 / 1000) for one in limits} == {down for _, down in KBPS}
    assert {round(one.up * 8 / 1000) for one in limits} == {up for up, _ in KBPS}
    assert max(one.delay for one in limits) <= max(high for _, high in DELAYS_MS) / 2000
    assert len({round(one.cpu_share, 6) for one in limits}) == 4


def test_devices_that_take_no_time_have_no_share_and_very_slow_ones_the_least():
    free = device_limits(homogeneous(seconds_per_sample=0.0)(client_keys(2), 0), 2)
    assert [one.cpu_share for one in free] == [None, None]
    unlike = device_limits(spread(compute=4.0)(client_keys(50), 0), 50)
    assert min(one.cpu_share for one in unlike) == LEAST_SHARE


def test_the_same_seed_gives_the_same_limits():
    assert device_limits(FLEETS["spread"](client_keys(9), 1), 9) == device_limits(FLEETS["spread"](client_keys(9), 1), 9)


def test_what_varies_from_trip_to_trip_varies_from_turn_to_turn():
    varying = FleetLimits(FLEETS["pool72 by trips"](client_keys(9), 1), 9)
    assert not varying.constant
    everyone = np.arange(9)
    assert varying.at(everyone, 5) == varying.at(everyone, 5) != varying.at(everyone, 6)
    assert varying.at(everyone[[4]], 5) == [varying.at(everyone, 5)[4]]
    assert FleetLimits(FLEETS["homogeneous"](client_keys(9), 1), 9).constant


def test_a_slow_client_has_less_of_everything_and_takes_as_long_as_in_the_simulation():
    keys = client_keys(CLIENTS)
    source, faults = FLEETS["homogeneous"](keys, 3), slowed(share=0.3)(keys, 3)
    limits = FleetLimits(source, CLIENTS, faults=faults)
    assert not limits.constant
    factors = faults.slowdown(np.arange(CLIENTS), 0.0, np.full(CLIENTS, 4))
    assert len(set(factors.tolist())) > 1
    for factor, own, usual in zip(factors, limits.at(np.arange(CLIENTS), 4), device_limits(source, CLIENTS), strict=True):
        assert own.cpu_share == pytest.approx(max(LEAST_SHARE, usual.cpu_share / factor))
        assert own.down == pytest.approx(usual.down / factor)
