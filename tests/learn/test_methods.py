"""Methods as compositions, trained for real on the embedded digits."""

import inspect
from functools import cache

import numpy as np
import pytest

from fedfleet.choose.uniform import uniform
from fedfleet.core.charging import cost_of
from fedfleet.core.errors import BadInput
from fedfleet.core.events import Evaluated, ModelCommitted, TaskArrived, TasksSent
from fedfleet.core.parts import Plan, World
from fedfleet.core.passes import LocalPass
from fedfleet.core.records import ServerState, Stop, whole_work
from fedfleet.core.registry import parameters
from fedfleet.core.rng import client_keys
from fedfleet.learn.averaging import fedavg
from fedfleet.learn.compose import method
from fedfleet.learn.override import overridden
from fedfleet.learn.terms import proximal
from fedfleet.learn.zoo import centralized, fedprox, local_only
from fedfleet.pace.rounds import readiness
from fedfleet.runtime.executors.inline import inline
from fedfleet.runtime.simulate import simulate
from fedfleet.tasks.digits import digits_logreg
from fedfleet.testing.toys import consensus
from fedfleet.world.devices import homogeneous
from fedfleet.world.partitions import dirichlet, hold
from fedfleet.world.states import always_on
from tests.worlds import only

CLIENTS = 8


@cache
def task():
    return digits_logreg()(0)


@cache
def world():
    keys = client_keys(CLIENTS)
    return World(keys, homogeneous()(keys, 0), always_on()(keys, 0), hold(dirichlet(0.5), task(), keys, 0))


def trained(algorithm, *, rounds=2, cohort=4):
    """The events of a short run, and where it ended."""
    events = []
    plan = Plan(3, algorithm, uniform(), readiness(cohort), Stop(rounds=rounds), task().init(3), CLIENTS)
    end = simulate(plan, world(), inline(task()), watch=events.extend)
    return events, end


def models(events):
    return [e.model_hash for e in only(ModelCommitted, events)]


def test_fedavg_learns_something():
    events, _ = trained(fedavg(lr=0.5), rounds=4, cohort=8)
    curve = [e.correct / e.total for e in only(Evaluated, events)]
    assert curve[0] < 0.25
    assert curve[-1] > 0.6


@pytest.mark.parametrize("options", [{}, {"momentum": 0.9, "weight_decay": 0.01}, {"optimiser": "adamw", "lr": 0.01}])
def test_fedprox_without_a_pull_is_fedavg_bit_for_bit(options):
    assert models(trained(fedprox(mu=0.0, **options))[0]) == models(trained(fedavg(**options))[0])


def test_fedprox_with_a_pull_stays_nearer_to_what_was_offered():
    ends = {mu: trained(fedprox(mu=mu), rounds=1)[1].state.server.params for mu in (0.0, 1.0)}
    start = task().init(3)
    moved = {mu: sum(float(np.square(p - start[n]).sum()) for n, p in params.items()) for mu, params in ends.items()}
    assert moved[1.0] < 0.9 * moved[0.0]


def test_the_pull_is_the_gradient_of_the_squared_norm():
    term = fedprox(mu=0.5).local(0, {}).terms[0]
    assert term({"w": np.array([3.0])}, {"w": np.array([1.0])}, {})["w"].tolist() == [1.0]


def test_a_term_needs_a_pass_that_can_be_read():
    with pytest.raises(BadInput, match="consensus has an opaque local pass"):
        proximal(consensus()).local(0, {})


def test_local_only_keeps_models_at_home():
    events, end = trained(local_only(lr=0.5), rounds=2, cohort=4)
    start = task().init(3)
    assert len(set(models(events))) == 1
    assert all(np.array_equal(end.state.server.params[n], start[n]) for n in start)
    assert all(e.bytes_up == 0 for e in only(TaskArrived, events))
    assert all(not e.bytes_down.any() and e.samples.all() for e in only(TasksSent, events))
    taken = {c for e in only(TasksSent, events) for c in e.clients.tolist()}
    assert set(end.memory.own) == taken
    homes = [end.memory.of(c)["kept"]["1.weight"] for c in end.memory.own]
    assert not np.array_equal(homes[0], homes[1])
    assert not np.array_equal(homes[0], start["1.weight"])


def test_local_only_goes_on_from_its_own_model():
    _, once = trained(local_only(), rounds=1, cohort=8)
    _, twice = trained(local_only(), rounds=2, cohort=8)
    start = task().init(3)["1.weight"]
    for client in once.memory.own:
        step, all_steps = (np.abs(end.memory.of(client)["kept"]["1.weight"] - start).sum() for end in (once, twice))
        assert all_steps > 1.2 * step


def test_local_only_is_judged_by_each_clients_own_model():
    events, _ = trained(local_only(lr=0.5), rounds=3, cohort=8)
    last = only(Evaluated, events)[-1]
    own = last.clients.correct.sum() / last.clients.total.sum()
    assert own > 0.5 > last.correct / last.total


def test_centralized_says_that_it_is_pooled():
    assert centralized(lr=0.2).pooled
    assert not fedavg().pooled


def test_overridden_clients_train_and_cost_as_their_variant_says():
    base, slow, late = fedavg(epochs=1), fedavg(epochs=3), fedavg(epochs=5)
    mixed = overridden(base, ((np.array([1, 2]), slow), (np.array([2, 4]), late)), CLIENTS)
    epochs = [mixed.local(c, {}).batches.epochs for c in range(6)]
    assert epochs == [1, 3, 5, 1, 5, 1]  # a later variant wins
    server = ServerState({"w": np.zeros(10, np.float32)})
    cost = cost_of(mixed, server, whole_work(np.array([4, 0, 1])), np.array([10, 20, 30]))
    assert cost.samples.tolist() == [50, 20, 90]
    assert cost.bytes_up.tolist() == [40, 40, 40]


def test_overridden_with_the_same_settings_changes_nothing():
    mixed = overridden(fedavg(), ((np.arange(CLIENTS), fedavg()),), CLIENTS)
    assert models(trained(mixed)[0]) == models(trained(fedavg())[0])


def test_overriding_changes_what_the_client_reports():
    lazy = overridden(fedavg(), ((np.arange(CLIENTS), fedavg(lr=1e-9)),), CLIENTS)
    _, end = trained(lazy)
    assert all(np.allclose(end.state.server.params[n], p, atol=1e-5) for n, p in task().init(3).items())


def test_a_methods_signature_is_its_parts_merged():
    both = parameters(fedprox)
    assert set(both) == {"mu", *parameters(fedavg)}
    assert both["lr"] == parameters(fedavg)["lr"]
    assert both["mu"][1].default == parameters(proximal)["mu"][1].default
    assert "algorithm" not in both
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for _, p in both.values())
    assert inspect.getdoc(fedprox).startswith("FedProx")


def test_a_method_hands_each_parameter_to_its_owner():
    built = fedprox(mu=0.25, lr=0.3, batch=5)
    assert built.name == "fedprox"
    local = built.local(0, {})
    assert isinstance(local, LocalPass)
    assert local.batches.size == 5
    assert local.terms[0]({"w": 1.0}, {"w": 0.0}, {})["w"] == 0.25


def test_a_method_refuses_what_neither_part_declares():
    with pytest.raises(TypeError, match="unknown parameter 'mew'"):
        fedprox(mew=1.0)


def test_two_parts_may_not_declare_the_same_parameter():
    def clashing(algorithm, *, lr: float = 0.1):
        return algorithm

    with pytest.raises(TypeError, match="both declare"):
        method(clashing, fedavg)
