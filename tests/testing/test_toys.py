"""The toys: exact on every machine, and as idle or as forgetful as they say."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.core.cost import cost_of
from fedfleet.core.parts import Job, Offer, Trial
from fedfleet.core.records import Cost, ServerState, whole_work
from fedfleet.core.trees import content_hash
from fedfleet.pace.rounds import readiness
from fedfleet.testing import check_device_source, check_state_source
from fedfleet.testing.toys import (
    consensus,
    consensus_start,
    constant_cost,
    idle,
    no_data,
    opaque_executor,
    trial_worlds,
)
from tests.worlds import even_fleet, events_of, toy_plan, world_of


def job(algorithm, *, client=0, key=1, params=None, memory=None):
    local, offer = algorithm.local(client, {}), Offer(params or consensus_start())
    return Job(client, client, key, 7, offer, local, np.zeros(0, np.int64), memory=memory or {})


def trained(*jobs):
    return list(opaque_executor().train(jobs))


def test_consensus_goes_halfway_home_in_dyadic_steps():
    (first,) = trained(job(consensus()))
    home = 2 * first.update["w"]
    assert np.array_equal(home * 256, np.round(home * 256))
    assert ((home >= 0) & (home <= 1)).all()
    there = {"w": home.astype(np.float32)}
    assert not trained(job(consensus(), params=there))[0].update["w"].any()


def test_a_home_belongs_to_the_key_and_not_to_the_number():
    a, b, c = trained(job(consensus()), job(consensus(), client=5), job(consensus(), key=2))
    assert content_hash(a.update) == content_hash(b.update) != content_hash(c.update)


def test_who_remembers_counts_its_folded_reports():
    counting = consensus(remembers=True)
    (first,) = trained(job(counting))
    assert first.memory["toy"]["count"].tolist() == [1.0]
    (second,) = trained(job(counting, memory=first.memory))
    assert (second.memory["toy"]["count"].tolist(), second.stats) == ([2.0], {"loss": 2.0})
    assert counting.personal({"w": 1}, second.memory) == {"w": 1, "count": second.memory["toy"]["count"]}
    assert trained(job(consensus()))[0].memory is None


def test_a_run_of_the_toy_comes_nearer_to_the_middle_of_all_homes_by_half_in_each_round():
    world = world_of(even_fleet(4))
    _, end = events_of(toy_plan(readiness(4, t_break=1.0), 4), world)
    jobs = [replace(job(consensus(), client=c, key=int(world.keys[c])), seed=3) for c in range(4)]
    middle = np.mean([2 * report.update["w"].astype(np.float64) for report in trained(*jobs)], axis=0)
    assert np.allclose(end.state.server.params["w"], middle * (1 - 0.5**4), atol=1e-6)


def test_idle_trains_nothing_and_costs_the_same_for_all():
    algorithm = idle(samples=3.0, model_bytes=5.0)
    (result,) = trained(job(algorithm))
    assert (result.update, result.weight, result.stats) == ({}, 1.0, {})
    cost = cost_of(algorithm, ServerState(consensus_start()), whole_work(np.arange(3)), np.array([1, 2, 3]))
    assert (cost.samples.tolist(), cost.bytes_down.tolist(), cost.bytes_up.tolist()) == (
        [3.0] * 3,
        [5.0] * 3,
        [5.0] * 3,
    )


@pytest.mark.parametrize("model_bytes", [None, 1e6])
def test_consensus_is_charged_by_its_samples_and_its_declared_size(model_bytes):
    asked = whole_work(np.arange(2))
    cost = cost_of(consensus(model_bytes=model_bytes), ServerState(consensus_start()), asked, np.array([4, 6]))
    assert cost.samples.tolist() == [4.0, 6.0]
    assert cost.bytes_up.tolist() == [16.0 if model_bytes is None else 1e6] * 2


def test_constant_costs_look_at_nobody():
    cost = constant_cost(2.0, 3.0)(ServerState({}), whole_work(np.arange(4)), np.zeros(4, np.int64))
    assert (cost.samples.tolist(), cost.bytes_up.tolist()) == ([2.0] * 4, [3.0] * 4)


def test_no_data_claims_samples_and_holds_none():
    data = no_data(3, samples=7)
    assert data.sizes(5).tolist() == [7, 7, 7]
    assert not len(data.shard(2, "train", 0))
    assert not len(data.holdout)
    assert not len(data.testers)


def test_the_opaque_executor_counts_nothing():
    scores = list(opaque_executor().evaluate([Trial(consensus_start(), np.arange(3))] * 2))
    assert [(s.correct, s.total, s.loss) for s in scores] == [(0, 0, 0.0)] * 2


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
