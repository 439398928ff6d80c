"""The toys: exact on every machine, and as idle or as forgetful as they say."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.core.cost import cost_of
from fedfleet.core.parts import Job, Offer, Trial
from fedfleet.core.records import ServerState, whole_work
from fedfleet.core.trees import content_hash
from fedfleet.pace.rounds import readiness
from fedfleet.testing.toys import consensus, consensus_start, constant_cost, idle, no_data, opaque_executor
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
