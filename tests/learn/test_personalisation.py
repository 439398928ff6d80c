"""Personalisation by its laws: what the server sees is what it would see without, heads stay home, own models are used."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from fedfleet.choose.uniform import uniform
from fedfleet.core.errors import BadInput
from fedfleet.core.events import Evaluated, ModelCommitted, TaskArrived, TasksSent
from fedfleet.core.part_facts import ModelFacts
from fedfleet.core.parts import Loss, Plan
from fedfleet.core.records import Stop
from fedfleet.core.rng import client_keys
from fedfleet.core.sources import World
from fedfleet.core.trees import content_hash, tree_nbytes
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.learn.composition import with_pass
from fedfleet.learn.features import with_features
from fedfleet.learn.objectives import with_loss
from fedfleet.learn.personalisation import with_fine_tuning, with_own_model
from fedfleet.learn.zoo import centralized, ditto, fedavg, fedbabu, fedbn, fedper, fedrep, ft
from fedfleet.pace.rounds import readiness
from fedfleet.simulation.simulator import simulate
from fedfleet.tasks.digits import digits_cnn, digits_mlp
from fedfleet.testing.toys import consensus
from fedfleet.world.devices import homogeneous
from fedfleet.world.partitions import dirichlet, make_shards
from fedfleet.world.states import always_on
from tests.worlds import only

pytestmark = pytest.mark.slow

CLIENTS = 8
HEAD, BODY = ("3.weight", "3.bias"), ("1.weight", "1.bias")
EXECUTORS = {"inline": inline, "merged": stacked_executor, "loop": lambda task: stacked_executor(task, form="loop")}
EVERYWHERE = pytest.mark.parametrize("execute", EXECUTORS)


@cache
def task(name="mlp"):
    return digits_mlp(16)(0) if name == "mlp" else digits_cnn(2, "batch")(0)


@cache
def executor(execute, name="mlp"):
    return EXECUTORS[execute](task(name))


@cache
def world():
    keys = client_keys(CLIENTS)
    return World(keys, homogeneous()(keys, 0), always_on()(keys, 0), make_shards(dirichlet(0.1), task(), keys, 0))


def run(algorithm, execute="inline", *, rounds=3, cohort=4, name="mlp"):
    """The events of a short run, and where it ended."""
    events = []
    plan = Plan(3, algorithm, uniform(), readiness(cohort), Stop(rounds=rounds), task(name).init(3), CLIENTS)
    end = simulate(plan, world(), executor(execute, name), watch=events.extend)
    return events, end


def models(events):
    return [e.model_hash for e in only(ModelCommitted, events)]


def judged(events):
    """The mean accuracy of clients at the end."""
    last = only(Evaluated, events)[-1].clients
    return float((last.correct / last.total).mean())


def frozen_head():
    """FedAvg on the body: the head is everyone's, and never trained."""
    return with_pass(fedavg(), "", lambda inner: replace(inner, train=_body))


def _body(name):
    return name in BODY


# ---- fine-tuning ---------------------------------------------------------------------------------------------------


@EVERYWHERE
def test_fine_tuning_leaves_the_server_unchanged_and_serves_the_clients(execute):
    plain, tuned = run(fedavg(), execute), run(ft(), execute)
    assert models(plain[0]) == models(tuned[0])
    assert content_hash(plain[1].state.server.params) == content_hash(tuned[1].state.server.params)
    assert judged(tuned[0]) > judged(plain[0]) + 0.1
    assert not tuned[1].memory.current, "what is tuned is forgotten"


def test_the_keyword_is_the_method():
    assert judged(run(with_features(fedavg(), fine_tune=5))[0]) == judged(run(ft())[0])


def test_a_rate_for_tuning_alone():
    assert with_fine_tuning(fedavg(lr=0.1), tune_lr=0.7).tune(0).rate == 0.7


def test_tuning_has_no_terms_memory_or_hooks_of_the_federation():
    result = with_fine_tuning(with_own_model(fedavg(weight_decay=0.1, batch=4, steps=3))).tune(0)
    assert result == replace(fedavg(weight_decay=0.1, batch=4, epochs=5).local(0, {}))


def test_a_loss_of_ones_own_reaches_tuning_and_second_models():
    loss = Loss(lambda outputs, labels: outputs.sum(1))
    assert with_loss(ft(), loss).tune(0).objective is not None
    assert with_loss(ditto(), loss).local(0, {}).second.own.objective is not None


def test_who_cannot_tune_is_told():
    with pytest.raises(BadInput, match="trains in one place"):
        with_fine_tuning(centralized())
    with pytest.raises(BadInput, match="a function of its own"):
        with_fine_tuning(consensus())


# ---- heads ---------------------------------------------------------------------------------------------------------

OWN_HEAD = {"fedper": fedper(head="3.*"), "fedrep": fedrep(head="3.*", head_epochs=2), "fedbabu": fedbabu(head="3.*")}


@EVERYWHERE
@pytest.mark.parametrize("name", OWN_HEAD)
def test_heads_are_never_on_the_wire_and_stay_as_they_were_at_the_server(name, execute):
    events, end = run(OWN_HEAD[name], execute)
    start = task().init(3)
    body = tree_nbytes({n: start[n] for n in BODY})
    assert all((e.bytes_down == body).all() for e in only(TasksSent, events))
    assert all(e.bytes_up == body for e in only(TaskArrived, events))
    assert all(np.array_equal(end.state.server.params[n], start[n]) for n in HEAD)
    assert not any(np.array_equal(end.state.server.params[n], start[n]) for n in BODY)
    aggregates = [e for e in events if isinstance(e, ModelCommitted)]
    assert len(aggregates) == 3


@pytest.mark.parametrize("name", ["fedper", "fedrep"])
def test_own_heads_are_remembered_and_differ(name):
    _, end = run(OWN_HEAD[name])
    taken = sorted(end.memory.current)
    assert taken and all(set(end.memory.slots_of(c)["kept"]) == set(HEAD) for c in taken)
    first, second = (end.memory.slots_of(c)["kept"]["3.weight"] for c in taken[:2])
    assert not np.array_equal(first, second)


def test_babus_head_is_nobodys_to_remember():
    _, end = run(OWN_HEAD["fedbabu"])
    assert not end.memory.current
    both = with_features(OWN_HEAD["fedbabu"], keep="1.bias")
    _, end = run(both)
    assert all(set(end.memory.slots_of(c)["kept"]) == {"1.bias"} for c in end.memory.current) and end.memory.current


@EVERYWHERE
def test_babu_and_fedrep_without_head_epochs_are_fedavg_on_the_body(execute):
    body = models(run(frozen_head(), execute)[0])
    assert models(run(OWN_HEAD["fedbabu"], execute)[0]) == body
    assert models(run(fedrep(head="3.*", head_epochs=0), execute)[0]) == body


def test_fedrep_trains_the_head_first_and_then_the_body():
    result = fedrep(head="3.*", head_epochs=4, epochs=1, batch=5).local(0, {})
    first, then = result.stages()
    assert (first.batches.epochs, then.batches.epochs, first.batches.size) == (4, 1, 5)
    assert [first.train(n) for n in (*HEAD, *BODY)] == [True, True, False, False]
    assert [then.train(n) for n in (*HEAD, *BODY)] == [False, False, True, True]


def test_who_never_took_part_is_judged_with_the_first_head():
    _, end = run(OWN_HEAD["fedper"], rounds=1, cohort=2)
    new = next(c for c in range(CLIENTS) if c not in end.memory.current)
    result = OWN_HEAD["fedper"].personal(end.state.server.params, end.memory.slots_of(new))
    assert all(np.array_equal(result[n], task().init(3)[n]) for n in HEAD)


@EVERYWHERE
def test_clients_are_judged_with_their_own_heads(execute):
    # Everyone takes part in the last round, or tunes: then personal models beat the one for all on data this unlike.
    plain = judged(run(fedavg(), execute, cohort=8)[0])
    for algorithm in OWN_HEAD.values():
        assert judged(run(algorithm, execute, cohort=8)[0]) > plain + 0.1


def test_the_model_says_which_layer_is_the_head():
    def facts():
        return ModelFacts("3.*", ())

    assert models(run(fedper(model=facts))[0]) == models(run(fedper(head="3.*"))[0])
    with pytest.raises(BadInput, match=r"algorithm.head = '9.\*' matches no leaf"):
        run(fedrep(head="9.*", model=facts))
    with pytest.raises(BadInput, match=r"algorithm.head: the whole model would stay at home"):
        run(fedbabu(head="*"))


# ---- normalisation -------------------------------------------------------------------------------------------------


@EVERYWHERE
def test_norms_stay_home_with_their_statistics(execute):
    events, end = run(fedbn(), execute, name="norms", rounds=2)
    start = task("norms").init(3)
    norms = {n for n in start if n.startswith("norm")}
    travels = tree_nbytes({n: v for n, v in start.items() if n not in norms})
    assert all((e.bytes_down == travels).all() for e in only(TasksSent, events))
    assert all(np.array_equal(end.state.server.params[n], start[n]) for n in norms)
    assert all(set(end.memory.slots_of(c)["kept"]) == norms for c in end.memory.current)
    assert not np.array_equal(
        end.memory.slots_of(min(end.memory.current))["kept"]["norm1.running_mean"], start["norm1.running_mean"]
    )


def test_a_model_without_norms_is_refused():
    with pytest.raises(BadInput, match="no layer that normalises"):
        run(fedbn())
    with pytest.raises(BadInput, match="no layer that normalises"):
        run(fedbn(model=lambda: ModelFacts("3.*", ())))


# ---- a model of one's own ------------------------------------------------------------------------------------------


@EVERYWHERE
@pytest.mark.parametrize(
    "settings", [{}, {"weight_decay": 0.1, "momentum": 0.5}, {"optimiser": "adamw", "weight_decay": 0.1, "lr": 0.01}]
)
def test_dittos_shared_model_is_fedavgs(execute, settings):
    plain, own = run(fedavg(**settings), execute), run(ditto(**settings), execute)
    assert models(plain[0]) == models(own[0])
    assert [e.bytes_up for e in only(TaskArrived, plain[0])] == [e.bytes_up for e in only(TaskArrived, own[0])]


@pytest.mark.parametrize("execute", ["merged", "loop"])
def test_dittos_own_models_are_the_same_on_both_executors(execute):
    _, there = run(ditto(lam=0.5), execute)
    _, here = run(ditto(lam=0.5))
    assert sorted(here.memory.current) == sorted(there.memory.current)
    for client in here.memory.current:
        for leaf, value in here.memory.slots_of(client)["second"].items():
            np.testing.assert_allclose(there.memory.slots_of(client)["second"][leaf], value, atol=2e-4)


def test_dittos_own_model_follows_its_rule():
    """Without data to fit, a step is v <- v - lr lam (v - w): the farther from the offered model, the stronger the pull."""
    flat = Loss(lambda outputs, labels: 0.0 * outputs.sum(1))
    algorithm = with_loss(ditto(lam=0.5, lr=0.2, steps=1), flat)
    start = task().init(3)
    job = next(iter(_jobs(algorithm, start)))
    away = {n: v + np.float32(1) for n, v in start.items()}
    (report,) = executor("inline").train([replace(job, memory={"second": away})])
    for leaf, value in report.memory["second"].items():
        np.testing.assert_allclose(value, start[leaf] + 0.9, atol=1e-6)
    assert all(not v.any() for v in report.update.values())


def _jobs(algorithm, params):
    from fedfleet.core.parts import Job, Offer

    rows = world().data.shard(0, "train", 0)
    yield Job(0, 0, 5, 3, Offer(params), algorithm.local(0, {}), rows)


def test_dittos_work_is_charged_twice_and_its_statistics_are_the_shared_models():
    (a, _), (b, _) = run(fedavg()), run(ditto())
    for one, two in zip(only(TasksSent, a), only(TasksSent, b), strict=True):
        assert (2 * one.samples == two.samples).all()
    job, twin = (next(iter(_jobs(make(), task().init(3)))) for make in (fedavg, ditto))
    (plain,), (own,) = (executor("inline").train([j]) for j in (job, twin))
    assert plain.stats == own.stats


def test_ditto_is_judged_by_its_own_models():
    assert judged(run(ditto(), cohort=8)[0]) > judged(run(fedavg(), cohort=8)[0]) + 0.1


def test_one_second_model_is_enough():
    with pytest.raises(BadInput, match="already has a second model"):
        with_own_model(ditto()).local(0, {})
