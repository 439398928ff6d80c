"""The two bounds: everyone alone with a model at home, and all data in one place."""

import numpy as np
import pytest

from fedfleet.core.cost import cost_of
from fedfleet.core.errors import BadInput
from fedfleet.core.events import Evaluated, TaskArrived, TasksSent
from fedfleet.core.records import ServerState, whole_work
from fedfleet.learn.baselines import own_leaves, pool_data, share_nothing
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.zoo import centralized, local_only
from fedfleet.testing.toys import consensus
from tests.learn.digits import models, task, trained
from tests.worlds import only


def test_local_only_keeps_models_at_home():
    events, end = trained(local_only(lr=0.5), rounds=2, cohort=4)
    start = task().init(3)
    assert len(set(models(events))) == 1
    assert all(np.array_equal(end.state.server.params[n], start[n]) for n in start)
    assert all(e.bytes_up == 0 for e in only(TaskArrived, events))
    assert all(not e.bytes_down.any() and e.samples.all() for e in only(TasksSent, events))
    taken = {c for e in only(TasksSent, events) for c in e.clients.tolist()}
    assert set(end.memory.current) == taken
    homes = [end.memory.slots_of(c)["kept"]["1.weight"] for c in end.memory.current]
    assert not np.array_equal(homes[0], homes[1])
    assert not np.array_equal(homes[0], start["1.weight"])


def test_local_only_goes_on_from_its_own_model():
    _, once = trained(local_only(), rounds=1, cohort=8)
    _, twice = trained(local_only(), rounds=2, cohort=8)
    start = task().init(3)["1.weight"]
    for client in once.memory.current:
        step, all_steps = (np.abs(end.memory.slots_of(client)["kept"]["1.weight"] - start).sum() for end in (once, twice))
        assert all_steps > 1.2 * step


def test_local_only_is_judged_by_each_clients_own_model():
    events, _ = trained(local_only(lr=0.5), rounds=3, cohort=8)
    last = only(Evaluated, events)[-1]
    own = last.clients.correct.sum() / last.clients.total.sum()
    assert own > 0.5 > last.correct / last.total


def test_what_stays_at_home_costs_no_bytes_and_as_much_work():
    server, asked, samples = ServerState({"w": np.zeros(10, np.float32)}), whole_work(np.arange(2)), np.array([7, 20])
    alone, together = (cost_of(make(fedavg(epochs=3)), server, asked, samples) for make in (share_nothing, lambda a: a))
    assert alone.samples.tolist() == together.samples.tolist() == [21, 60]
    assert alone.bytes_down.tolist() == alone.bytes_up.tolist() == [0, 0]


def test_a_clients_own_leaves_stand_before_the_global_ones():
    params, mine = {"a": np.zeros(1), "b": np.zeros(1)}, {"b": np.ones(1)}
    result = own_leaves(params, {"kept": mine, "other": {"a": np.full(1, 9.0)}})
    assert (result["a"], result["b"]) == (params["a"], mine["b"])
    assert own_leaves(params, {}) == params


def test_only_a_pass_that_can_be_read_can_be_kept_home():
    with pytest.raises(
        BadInput, match="a function of its own, which cannot be changed from outside, so its parameters cannot be kept home"
    ):
        share_nothing(consensus()).local(0, {})


def test_centralized_says_that_it_is_pooled():
    assert centralized(lr=0.2).pooled
    assert not fedavg().pooled


def test_pooling_changes_nothing_but_where_the_data_lie():
    inner = fedavg(lr=0.2)
    result = pool_data(inner)
    assert result.name == "centralized"
    assert (result.local, result.fold, result.apply, result.cost) == (inner.local, inner.fold, inner.apply, inner.cost)
