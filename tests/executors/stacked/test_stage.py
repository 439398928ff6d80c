"""One stage of a stack: objectives, second models, drifts, clients that leave early; always as the literal loop does."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedfleet.core.passes import BatchPlan, ConstantTerm, LocalPass, ProximalTerm, SecondModel, Slot, zeros_like
from fedfleet.executors.client_half import prepare_job
from fedfleet.executors.inline import inline, train_stages
from fedfleet.executors.stacked import linear_layers, stage
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.executors.stacked.schedule import plan_stage
from fedfleet.executors.stacked.stacked_model import make_twin
from fedfleet.executors.stacked.stage import Work, can_fuse, shares_weights, train_stage, trainable
from fedfleet.executors.tensor_stacks import stack_carry, stack_trees
from fedfleet.learn.optimisers import adam, sgd
from fedfleet.testing.passes import distillation_loss, smoothed_loss
from tests.executors.cohorts import convolutions, dense, jobs_with, small_task, smooth

PLAIN = LocalPass(sgd(), BatchPlan(4, 2), rate=0.05)
RAGGED = (9, 20, 3, 12)
CPU = torch.device("cpu")


def work_of(task, local, sizes, **changes):
    """The first stage of a cohort, in the order of its schedule, and its clients in the same order."""
    group = [prepare_job(job) for job in jobs_with(task, local, sizes)]
    plan = plan_stage([b.job for b in group], local.batches)
    group = [group[i] for i in plan.order.tolist()]
    start = stack_trees([b.start for b in group], CPU)
    carried = stack_carry(group, CPU)
    rates = np.array([b.rate(local) for b in group])
    second = dict(carried.memory.get("second", {}))
    return replace(Work(local, plan, start, start, carried, second, rates), **changes), group


def same_as_literal(build, local, sizes=RAGGED, *, atol=2e-5):
    task = small_task(build)
    x, y = torch.from_numpy(task.dataset.x), torch.from_numpy(task.dataset.y)
    work, group = work_of(task, local, sizes)
    twin = make_twin(task.build(), x[:2])
    done = train_stage(twin, work, x, y)
    module = task.build().train()
    for c, begun in enumerate(group):
        wanted = train_stages(module, begun, x, y)
        for name, value in wanted.end.items():
            assert torch.allclose(done.end[name][c], value[0], atol=atol), (c, name)
        for name, value in wanted.second.items():
            assert torch.allclose(done.second[name][c], value[0], atol=atol), (c, name)
        for mine, theirs in zip(
            (done.tallies.loss, done.tallies.squared), (wanted.tallies.loss, wanted.tallies.squared), strict=True
        ):
            assert mine[c] == pytest.approx(theirs[0], rel=1e-3)
        assert (done.tallies.samples[c], done.tallies.steps[c]) == (wanted.tallies.samples[0], wanted.tallies.steps[0])
    stack = twin.stack
    assert (stack.move, stack.trigger, stack.weights) == (None, None, None), "the twin is left clean for the next"


COPIED = SecondModel(lambda model: {n: v * 0.5 if v.dtype.kind == "f" else v for n, v in model.items()})
CONTROL = Slot("control", zeros_like)
PASSES = {
    "an objective": replace(PLAIN, objective=smoothed_loss),
    "a second model": replace(PLAIN, objective=distillation_loss, second=COPIED),
    "a second model under adam": replace(PLAIN, objective=distillation_loss, second=COPIED, optimiser=adam(), rate=0.01),
    "a second model, frozen in part": replace(
        PLAIN, objective=distillation_loss, second=COPIED, train=lambda name: name.startswith("3")
    ),
    "a drift": replace(PLAIN, terms=(ConstantTerm(lambda start, carried: {n: 0.1 * v for n, v in start.items()}),)),
    "drift and pull": replace(
        PLAIN, terms=(ProximalTerm(0.5), ConstantTerm(lambda start, carried: {n: 0.1 * v for n, v in start.items()}))
    ),
    "a term of one's own": replace(PLAIN, terms=(lambda params, start, carried: {n: 0.2 * p.sign() for n, p in params.items()},)),
    "adam": replace(PLAIN, optimiser=adam(weight_decay=0.1), rate=0.01),
    "fused with everything": replace(PLAIN, optimiser=sgd(momentum=0.9, weight_decay=0.01), terms=(ProximalTerm(0.5),)),
    "one trained layer": replace(PLAIN, train=lambda name: name.startswith("3")),
    "a bias alone": replace(PLAIN, train=lambda name: name == "3.bias"),
}


@pytest.mark.parametrize("name", PASSES)
def test_a_stage_is_the_literal_loop_for_clients_that_leave_early_and_for_all_alike(name):
    same_as_literal(smooth(), PASSES[name])
    same_as_literal(smooth(), PASSES[name], (8, 8, 8))


@pytest.mark.parametrize("name", ["an objective", "a second model", "a drift", "fused with everything"])
def test_running_statistics_are_each_models_own(name):
    tanh = lambda: nn.Sequential(nn.Flatten(), nn.BatchNorm1d(144), nn.Linear(144, 6), nn.Tanh(), nn.Linear(6, 5))  # noqa: E731
    same_as_literal(tanh, PASSES[name], (10, 20, 7, 12), atol=1e-4)


@pytest.mark.parametrize("optimiser", [sgd(), sgd(momentum=0.9), adam()], ids=["sgd", "momentum", "adam"])
def test_rates_of_their_own_stay_their_own_when_others_leave(optimiser):
    task, local = small_task(smooth()), replace(PLAIN, optimiser=optimiser)
    jobs = [replace(job, settings={"rate": 0.01 * (i + 1)}) for i, job in enumerate(jobs_with(task, local, RAGGED))]
    for a, b in zip(inline(task).train(jobs), stacked_executor(task).train(jobs), strict=True):
        assert all(np.allclose(v, b.update[n], atol=2e-5) for n, v in a.update.items())


def test_memory_that_a_term_reads_leaves_with_its_client():
    local = replace(PLAIN, slots=(CONTROL,), terms=(ConstantTerm(lambda start, carried: carried.memory["control"]),))
    task = small_task(smooth())
    jobs = [
        replace(job, memory={"control": {n: np.full_like(v, 0.1 * i) for n, v in job.offer.params.items()}})
        for i, job in enumerate(jobs_with(task, local, RAGGED))
    ]
    for a, b in zip(inline(task).train(jobs), stacked_executor(task).train(jobs), strict=True):
        assert all(np.allclose(v, b.update[n], atol=2e-5) for n, v in a.update.items())


def test_what_can_be_fused():
    task = small_task(smooth())
    twin = make_twin(task.build(), torch.from_numpy(task.dataset.x[:2]))

    def fuses(local, **changes):
        return can_fuse(twin, work_of(task, local, (4, 4), **changes)[0])

    assert fuses(PLAIN)
    assert fuses(PASSES["fused with everything"])
    assert fuses(PASSES["one trained layer"])
    assert not fuses(PASSES["a bias alone"])  # its weight would have to stay
    assert not any(fuses(PASSES[n]) for n in ("an objective", "a drift", "adam", "a second model"))


def test_only_weights_that_all_clients_begin_with_are_shared():
    task = small_task(dense())
    twin = make_twin(task.build(), torch.from_numpy(task.dataset.x[:2]))
    weight = torch.zeros(200, 144)
    assert shares_weights(twin, "1.weight", weight.expand(3, 200, 144))
    assert not shares_weights(twin, "1.weight", weight.repeat(3, 1, 1))
    assert not shares_weights(twin, "1.weight", weight.unsqueeze(0))  # alone it shares with nobody
    assert not shares_weights(twin, "1.bias", torch.zeros(200).expand(3, 200))


def test_running_statistics_are_nothing_to_train():
    twin = make_twin(convolutions(lambda: nn.BatchNorm2d(6))())
    assert {n for n in twin.places if not trainable(twin, n)} == {
        "1.running_mean",
        "1.running_var",
        "1.num_batches_tracked",
    }


def test_one_rate_for_all_or_none():
    task = small_task(smooth())
    assert work_of(task, PLAIN, (4, 4))[0].rate == 0.05
    assert work_of(task, PLAIN, (4, 4), rates=np.array([0.1, 0.2]))[0].rate is None


def test_what_a_stage_begins_with_is_not_changed():
    task = small_task(smooth())
    work, _ = work_of(task, PASSES["a second model"], RAGGED)
    before = {n: v.clone() for n, v in {**work.begin, **{f"second/{n}": v for n, v in work.second.items()}}.items()}
    x, y = torch.from_numpy(task.dataset.x), torch.from_numpy(task.dataset.y)
    train_stage(make_twin(task.build(), x[:2]), work, x, y)
    after = {**work.begin, **{f"second/{n}": v for n, v in work.second.items()}}
    assert all(torch.equal(v, after[n]) for n, v in before.items())


# ---- as on an accelerator -----------------------------------------------------------------------------------------

DRIFT = ConstantTerm(lambda start, carried: {n: 0.1 * v for n, v in start.items()})


@pytest.mark.parametrize("sizes", [(12, 12, 12), RAGGED], ids=["even", "ragged"])
@pytest.mark.parametrize("terms", [(DRIFT,), (DRIFT, DRIFT, ProximalTerm(0.5))], ids=["a drift", "drifts and a pull"])
def test_terms_that_stay_the_same_are_part_of_the_fused_step(terms, sizes, monkeypatch):
    monkeypatch.setattr(stage, "on_accelerator", lambda work: True)
    local = replace(PLAIN, terms=terms)
    work, _ = work_of(small_task(smooth(200)), local, sizes)
    assert can_fuse(make_twin(small_task(smooth(200)).build()), work)
    same_as_literal(smooth(200), local, sizes)
    same_as_literal(smooth(200), replace(local, optimiser=sgd(momentum=0.9)), sizes)


def test_a_pull_to_another_place_than_the_beginning(monkeypatch):
    """As the second model of Ditto: each client begins with weights of its own and is pulled to those of all."""
    task, local = small_task(smooth(200)), replace(PLAIN, terms=(ProximalTerm(0.5),))
    x, y = torch.from_numpy(task.dataset.x), torch.from_numpy(task.dataset.y)
    ends, pasts, begin_past = [], [], linear_layers.Linear._begin_past
    monkeypatch.setattr(linear_layers.Linear, "_begin_past", lambda leaf, x: (begin_past(leaf, x), pasts.append(leaf.past))[0])
    for accelerated in (False, True):
        monkeypatch.setattr(stage, "on_accelerator", lambda work, now=accelerated: now)
        work, _ = work_of(task, local, (8, 8, 8))
        own = {n: v + 0.05 * torch.sin(torch.arange(float(v.numel()))).reshape(v.shape) for n, v in work.begin.items()}
        twin = make_twin(task.build(), x[:2])
        ends.append(train_stage(twin, replace(work, begin=own), x, y).end)
    assert any(past is not None and len(past.others) == 1 for past in pasts), "the wide layer keeps its steps apart"
    for name, value in ends[0].items():
        assert torch.allclose(value, ends[1][name], atol=2e-5), name
