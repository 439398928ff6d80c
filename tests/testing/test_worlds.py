"""The worlds of the conformance checks are what their names say."""

import numpy as np
import pytest

from fedfleet.core.records import Cost
from fedfleet.testing import check_device_source, check_state_source
from fedfleet.testing.worlds import trial_worlds

CLIENTS = 24
BY_NAME = {trial.name: trial for trial in trial_worlds(CLIENTS)}


def seconds_of(trial, task=0):
    n = len(trial.world.keys)
    cost = Cost(np.ones(n), np.ones(n), np.ones(n))
    return trial.world.devices.seconds(np.arange(n), cost, 0.0, np.full(n, task))


@pytest.mark.parametrize("name", BY_NAME)
def test_every_world_is_complete_and_pure(name):
    world = BY_NAME[name].world
    n = len(world.keys)
    assert n == (1 if name == "there is one client" else CLIENTS)
    assert len(np.unique(world.keys)) == n
    assert world.data.sizes(0).shape == world.states.online(0.0).shape == (n,)
    check_device_source(world.devices, n)
    check_state_source(world.states, n)
    assert world.users.user_of.tolist() == [c // 2 for c in range(n)]


def test_where_everyone_answers_everyone_can_and_is_there_at_some_time():
    for trial in BY_NAME.values():
        times = np.arange(0.0, 600.0, 30.0)
        there = np.any([trial.world.states.online(t) for t in times], axis=0)
        able = np.isfinite(seconds_of(trial)) & (seconds_of(trial) < 1e6)
        if trial.answers:
            assert there.all(), trial.name
            assert able.all(), trial.name


def test_the_worlds_in_which_something_is_missing():
    assert np.isinf(seconds_of(BY_NAME["nobody can do the work"])).all()
    some = seconds_of(BY_NAME["a third of the devices cannot do the work"])
    assert np.isinf(some).sum() == CLIENTS // 3
    assert seconds_of(BY_NAME["nobody ever reports"]).min() > 365 * 86400
    assert not BY_NAME["nobody is online"].world.states.online(0.0).any()


def test_speeds_differ_or_do_not_as_it_is_said():
    unlike = seconds_of(BY_NAME["everyone is there, at unlike speeds"])
    assert len(np.unique(unlike)) > CLIENTS // 2
    assert unlike.min() >= 1.0
    assert set(seconds_of(BY_NAME["everyone is there and equally fast"])) == {8.0}


def test_who_comes_and_goes_is_away_for_a_quarter_of_the_time_and_varies_from_trip_to_trip():
    trial = BY_NAME["clients come and go"]
    there = np.mean([trial.world.states.online(60.0 * t) for t in range(4)], axis=0)
    assert (there == 0.75).all()
    trips = np.stack([seconds_of(trial, task) for task in range(3)])
    assert np.array_equal(trips, trips[0] * np.array([[1.0], [2.0], [3.0]]))


def test_worlds_repeat_themselves():
    for one, other in zip(trial_worlds(CLIENTS), trial_worlds(CLIENTS), strict=True):
        assert np.array_equal(seconds_of(one), seconds_of(other))
