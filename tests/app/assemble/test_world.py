"""Worlds: heterogeneity that can be switched off, and all data in one place."""

import numpy as np
import pytest

from fedfleet.app.assemble import assemble, score_states
from fedfleet.app.spec import resolve
from fedfleet.core.records import Cost
from fedfleet.world.bases import load_states

WORLD = {"clients": 30, "devices": {"use": "spread"}, "states": {"use": "daily", "ready": 0.3}}


def seen(heterogeneity):
    """How different the devices are, and how many clients are online at some times."""
    world = assemble(resolve({"world": {**WORLD, "heterogeneity": heterogeneity}})).world
    n = np.arange(30)
    seconds = world.devices.seconds(n, Cost(np.ones(30), np.full(30, 1e6), np.full(30, 1e6)), 0.0, n)
    online = [world.states.online(t).mean() for t in np.arange(0, 86400, 3600.0)]
    return len(np.unique(seconds.round(9))), float(np.mean(online))


@pytest.mark.parametrize(
    ("heterogeneity", "devices_differ", "always_online"),
    [("both", True, False), ("devices", True, True), ("states", False, False), ("none", False, True)],
)
def test_each_kind_of_heterogeneity_can_be_switched_off(heterogeneity, devices_differ, always_online):
    kinds, online = seen(heterogeneity)
    assert (kinds > 1) == devices_differ
    assert (online == 1.0) == always_online


def test_an_algorithm_that_pools_sees_all_training_data_in_one_place():
    flat = assemble(resolve({"world": {"clients": 20}}))
    pooled = assemble(resolve({"world": {"clients": 20}, "algorithm": "centralized"}))
    everybody = np.sort(np.concatenate([flat.world.data.shard(c, "train", 0) for c in range(20)]))
    assert (pooled.plan.clients, pooled.plan.pace.cohort, pooled.plan.byte_scale) == (1, 1, 0.0)
    assert np.array_equal(np.sort(pooled.world.data.shard(0, "train", 0)), everybody)
    for c in range(20):
        assert np.array_equal(pooled.world.data.shard(c, "test", 0), flat.world.data.shard(c, "test", 0))


def test_states_are_scored_one_by_one():
    states = load_states("builtin:30")
    scores = score_states(states, 120.0, 50, 200, "paper")
    assert scores.shape == (30,) and (scores >= 0).all() and len(np.unique(scores)) > 1


@pytest.mark.parametrize("edge", [{}, {"edge": "hierfl"}])
def test_whoever_is_down_cannot_be_reached_and_users_neither(edge):
    table = {
        **WORLD,
        "users": {"use": "households"},
        "faults": {"use": "outages", "rate": 0.9, "groups": 3, "seconds": 9000.0},
    }
    pace = {"use": "deadline", "cohort": 3}
    world = assemble(resolve({"world": table, "pace": pace, **edge})).world
    up = assemble(resolve({"world": {k: v for k, v in table.items() if k != "faults"}, "pace": pace, **edge})).world
    assert up.faults is None and world.faults is not None and len(world.keys) == len(up.keys)
    times = np.arange(0.0, 86400.0, 1800.0).tolist()
    for t in times:
        assert np.array_equal(world.states.online(t), up.states.online(t) & ~world.faults.away(t))
    assert sum(world.faults.away(t).sum() for t in times) > 0
