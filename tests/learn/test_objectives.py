"""Terms of the local objective: FedProx, and terms in every stage of a pass."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core.cost import cost_of
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.parts import Job, Loss, Offer, Trial
from fedfleet.core.passes import Carry, ConstantTerm
from fedfleet.core.records import ServerState, whole_work
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.learn.composition import with_pass
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.objectives import proximal, with_loss, with_penalty, with_term
from fedfleet.learn.zoo import fedprox
from fedfleet.tasks.digits import digits_mlp
from fedfleet.testing import check_algorithm
from fedfleet.testing.toys import consensus
from tests.learn.digits import FORMS, models, task, trained

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("options", [{}, {"momentum": 0.9, "weight_decay": 0.01}, {"optimiser": "adamw", "lr": 0.01}])
@pytest.mark.parametrize("execute", FORMS)
def test_fedprox_without_a_pull_is_fedavg_bit_for_bit(options, execute):
    plain = trained(fedavg(**options), execute=execute)[0]
    assert models(trained(fedprox(mu=0.0, **options), execute=execute)[0]) == models(plain)


def test_fedprox_with_a_pull_stays_nearer_to_what_was_offered():
    ends = {mu: trained(fedprox(mu=mu), rounds=1)[1].state.server.params for mu in (0.0, 1.0)}
    start = task().init(3)
    moved = {mu: sum(float(np.square(p - start[n]).sum()) for n, p in params.items()) for mu, params in ends.items()}
    assert moved[1.0] < 0.9 * moved[0.0]


def test_the_pull_is_the_gradient_of_the_squared_norm():
    term = fedprox(mu=0.5).local(0, {}).terms[0]
    assert term({"w": np.array([3.0])}, {"w": np.array([1.0])}, {})["w"].tolist() == [1.0]


@given(mu=st.floats(0, 10), w=st.floats(-5, 5), start=st.floats(-5, 5))
def test_the_pull_is_the_slope_of_half_mu_times_the_squared_distance(mu, w, start):
    term, step = proximal(fedavg(), mu=mu).local(0, {}).terms[0], 1e-4
    (up, down) = (mu / 2 * (at - start) ** 2 for at in (w + step, w - step))
    assert term({"w": w}, {"w": start}, {})["w"] == pytest.approx((up - down) / (2 * step), abs=1e-6)


def test_a_term_needs_a_pass_that_can_be_read():
    with pytest.raises(BadInput, match="consensus trains its clients with a function of its own"):
        proximal(consensus()).local(0, {})


def test_a_term_comes_after_those_before_and_into_every_stage():
    first, second = ConstantTerm(lambda start, carried: {}), ConstantTerm(lambda start, carried: {})
    inner = fedavg().local(0, {})
    staged = replace(fedavg(), local=lambda client, settings: replace(inner, terms=(first,), then=inner))
    result = with_term(staged, second).local(0, {})
    assert [stage.terms for stage in result.stages()] == [(first, second), (second,)]


def test_equal_settings_give_equal_passes_so_that_clients_train_together():
    one = proximal(fedavg(), mu=0.3)
    assert one.local(0, {}) == one.local(5, {}) == proximal(fedavg(), mu=0.3).local(1, {})
    assert one.local(0, {}) != proximal(fedavg(), mu=0.4).local(0, {})


def test_a_pass_is_changed_for_each_client_as_the_algorithm_gives_it():
    passes = [fedavg(epochs=e).local(0, {}) for e in (1, 2)]
    mixed = replace(fedavg(), local=lambda client, settings: passes[client])
    changed = with_pass(mixed, "", lambda inner: replace(inner, weigh="one"))
    assert [changed.local(c, {}).batches.epochs for c in (0, 1)] == [1, 2]
    assert {changed.local(c, {}).weigh for c in (0, 1)} == {"one"}


def test_a_drift_speaks_only_of_what_is_trained():
    term = ConstantTerm(lambda start, carried: carried.given)
    assert term({"a": 1.0}, {}, Carry({}, {"a": 2.0, "frozen": 3.0})) == {"a": 2.0}


TASK = digits_mlp()(0)
ENTROPY = torch.nn.functional.cross_entropy


def each_entropy(outputs, labels):
    return ENTROPY(outputs, labels, reduction="none")


def weighted(outputs, labels):
    """One value for all samples, which is no mean of single ones: only the samples of one client may meet in it."""
    return ENTROPY(outputs, labels, weight=torch.linspace(0.2, 2.0, 10))


LOSSES = {
    "each": Loss(each_entropy),
    "joint": Loss(ENTROPY, joint=True),
    "power": Loss(lambda o, t: each_entropy(o, t) ** 1.5),
    "weighted": Loss(weighted, joint=True),
}


def jobs(algorithm, sizes=(20, 7, 13)):
    offer, rows = Offer(TASK.init(0)), np.arange(200)
    return [Job(i, i, 40 + i, 1, offer, algorithm.local(i, {}), rows[i * 25 : i * 25 + n]) for i, n in enumerate(sizes)]


@pytest.mark.parametrize("name", ["each", "joint"])
def test_cross_entropy_by_hand_is_cross_entropy(name):
    plain, own = (
        list(inline(replace(TASK, loss=loss)).train(jobs(fedavg() if loss is None else with_loss(fedavg(), loss))))
        for loss in (None, LOSSES[name])
    )
    for a, b in zip(plain, own, strict=True):
        for leaf in a.update:
            np.testing.assert_allclose(a.update[leaf], b.update[leaf], rtol=1e-5, atol=1e-7)
        assert a.stats["loss"] == pytest.approx(b.stats["loss"], rel=1e-5)


@pytest.mark.parametrize("form", ["merged", "loop"])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("method", [fedavg, fedprox])
def test_executors_agree(form, name, method):
    task, work = replace(TASK, loss=LOSSES[name]), jobs(with_loss(method(batch=8), LOSSES[name]))
    for a, b in zip(inline(task).train(work), stacked_executor(task, form=form).train(work), strict=True):
        for leaf in a.update:
            assert np.abs(a.update[leaf] - b.update[leaf]).max() <= 1e-4 * np.abs(a.update[leaf]).max() + 1e-7


@pytest.mark.parametrize("name", LOSSES)
def test_models_are_judged_by_the_same_loss(name):
    loss, params = LOSSES[name], TASK.init(0)
    task = replace(TASK, loss=loss)
    shards = [np.arange(30), np.arange(30, 33), np.arange(100, 150)]
    trials = [Trial(params, shard) for shard in shards] + [Trial(TASK.init(1), shards[1])]
    one, other = list(inline(task).evaluate(trials)), list(stacked_executor(task).evaluate(trials))
    assert [s.correct for s in one] == [s.correct for s in other]
    assert [s.loss for s in one] == pytest.approx([s.loss for s in other], rel=1e-5)
    module = TASK.build()
    module.load_state_dict({n: torch.from_numpy(v) for n, v in params.items()})
    with torch.no_grad():
        wanted = loss.compute(module(torch.from_numpy(TASK.dataset.x[shards[0]])), torch.from_numpy(TASK.dataset.y[shards[0]]))
    assert one[0].loss == pytest.approx(float(wanted.mean()), rel=1e-5)


def test_an_algorithm_with_an_objective_of_its_own_refuses():
    algorithm = with_loss(fedavg(), LOSSES["each"])
    with pytest.raises(BadInput, match="its own objective"):
        with_loss(algorithm, LOSSES["each"])


def test_an_opaque_algorithm_refuses():
    with pytest.raises(BadInput, match="cannot take a loss"):
        with_loss(replace(fedavg(), local=lambda client, settings: lambda job, data: None), LOSSES["each"])


@pytest.mark.parametrize("kind", [inline, stacked_executor])
def test_a_loss_that_breaks_is_named(kind):
    loss = Loss(lambda o, t: {}["margin"])
    with pytest.raises(RunFailed, match="your loss function failed: KeyError: 'margin'"):
        list(kind(TASK).train(jobs(with_loss(fedavg(), loss))))


def test_tuning_takes_it_too():
    tuned = replace(fedavg(), tune=lambda client: fedavg().local(client, {}))
    assert with_loss(tuned, LOSSES["each"]).tune(0).objective is not None


# ---- penalties on outputs -------------------------------------------------------------------------------------------


def squared_gap(outputs, offered):
    return (outputs - offered).square().mean(1)


@pytest.mark.parametrize("execute", FORMS)
def test_a_penalty_of_nothing_changes_next_to_nothing(execute):
    free = with_penalty(fedavg(), lambda outputs, offered: 0.0 * outputs.sum(1))
    one, other = (trained(a, rounds=1, execute=execute)[1].state.server.params for a in (fedavg(), free))
    assert max(float(np.abs(one[n] - other[n]).max()) for n in one) < 1e-6


@pytest.mark.parametrize("execute", FORMS)
def test_outputs_stay_near_those_of_the_offered_model(execute):
    task_ = task()
    start, x = task_.init(3), torch.from_numpy(task_.dataset.x[:200])
    outputs = {}
    for strength in (0.0, 5.0):
        near = with_penalty(fedavg(), lambda now, offered, strength=strength: strength * squared_gap(now, offered))
        end = trained(near, rounds=1, execute=execute)[1].state.server.params
        outputs[strength] = torch.func.functional_call(task_.build(), {n: torch.from_numpy(v) for n, v in end.items()}, (x,))
    first = torch.func.functional_call(task_.build(), {n: torch.from_numpy(v) for n, v in start.items()}, (x,))
    gaps = {s: float(squared_gap(o, first).mean()) for s, o in outputs.items()}
    assert gaps[5.0] < 0.5 * gaps[0.0]


def test_a_penalty_passes_its_check_alone_and_around_a_loss_in_every_stage():
    smooth = with_loss(fedavg(lr=0.05), Loss(lambda o, y: torch.nn.functional.cross_entropy(o, y, reduction="none")))
    staged = with_pass(fedavg(lr=0.05, epochs=1), "", lambda p: replace(p, then=replace(p)))
    for inner in (fedavg(lr=0.05), smooth, staged):
        near = with_penalty(inner, squared_gap)
        assert near.local(0, {}) == near.local(1, {})
        check_algorithm(near, digits_mlp()(0), quiet=True)
    assert with_penalty(staged, squared_gap).local(0, {}).then.objective is not None


def test_a_penalty_costs_no_byte():
    asked, sizes = whole_work(np.arange(2)), np.array([5, 9])
    server = ServerState(task().init(0))
    plain, near = (cost_of(a, server, asked, sizes) for a in (fedavg(), with_penalty(fedavg(), squared_gap)))
    assert np.array_equal(plain.bytes_down, near.bytes_down) and np.array_equal(plain.bytes_up, near.bytes_up)


def test_an_error_in_a_penalty_names_it():
    broken = with_penalty(fedavg(), lambda outputs, offered: outputs.nonsense)
    with pytest.raises(RunFailed, match="your penalty failed: AttributeError"):
        trained(broken, rounds=1)
