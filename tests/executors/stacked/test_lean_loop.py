"""The lean loop: large layers that move themselves, on several threads, come to what the literal loop comes to."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedfleet.core.errors import RunFailed
from fedfleet.core.passes import BatchPlan, ConstantTerm, LocalPass, ProximalTerm
from fedfleet.core.trees import content_hash
from fedfleet.executors.client_half import batches, prepare_job
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.executors.stacked.lean_loop import (
    FusedLinear,
    Rate,
    is_plain,
    make_lean_module,
    samples_of,
    train_in_loop,
)
from fedfleet.learn.optimisers import adam, sgd
from fedfleet.learn.zoo import fedavg, fedprox
from tests.executors.cohorts import Twice, compare, dense, jobs_of, jobs_with, small_task, smooth

pytestmark = pytest.mark.slow

PLAIN = LocalPass(sgd(weight_decay=0.1), BatchPlan(4, 2))


class Wide(nn.Module):
    """A large linear layer that sees several inputs for each sample."""

    def __init__(self):
        super().__init__()
        self.wide, self.head = nn.Linear(12, 20000), nn.Linear(20000, 5)

    def forward(self, x):
        return self.head(torch.relu(self.wide(x.squeeze(1))).mean(1))


@pytest.mark.parametrize("build", [dense(2000), Wide], ids=["one input each", "several inputs each"])
@pytest.mark.parametrize(
    "algorithm",
    [
        fedavg(lr=0.05, batch=4),
        fedavg(lr=0.05, weight_decay=0.1),
        fedavg(lr=0.05, steps=5),
        fedprox(mu=2.0, lr=0.05, batch=4),
        fedprox(mu=2.0, lr=0.05, weight_decay=0.1),
    ],
)
def test_the_loop_keeps_large_layers_apart_and_comes_to_the_same(build, algorithm):
    compare(small_task(build), algorithm, (9, 20, 3), form="loop", threads=2)


@pytest.mark.parametrize(
    ("local", "plain"),
    [
        (PLAIN, True),
        (replace(PLAIN, sends=lambda name: True, weigh="one"), True),
        (replace(PLAIN, after=(lambda passed: passed,)), True),
        (replace(PLAIN, optimiser=sgd(momentum=0.9)), False),
        (replace(PLAIN, optimiser=adam()), False),
        (replace(PLAIN, terms=(ProximalTerm(0.1),)), True),
        (replace(PLAIN, terms=(ProximalTerm(0.1), ConstantTerm(lambda start, carried: {}))), False),
        (replace(PLAIN, train=lambda name: True), False),
        (replace(PLAIN, keep=lambda name: True), False),
        (replace(PLAIN, then=PLAIN), False),
        (replace(PLAIN, objective=lambda *given: None), False),
    ],
)
def test_the_lean_way_is_for_plain_steps_only(local, plain):
    assert is_plain(local) == plain


@pytest.mark.parametrize("options", [{"batch": 4}, {"weight_decay": 0.1}])
def test_a_pull_of_nothing_changes_no_bit_of_large_layers(options):
    task = small_task(dense(2000))
    plain, pulled = (
        stacked_executor(task, form="loop").train(jobs_of(task, make(lr=0.05, **options), (9, 20, 3)))
        for make in (fedavg, lambda **more: fedprox(mu=0.0, **more))
    )
    assert [content_hash(r.update) for r in plain] == [content_hash(r.update) for r in pulled]


def test_only_large_layers_with_a_bias_that_are_used_once_move_themselves():
    assert list(make_lean_module(small_task(dense(2000))).fused) == ["1"]
    assert make_lean_module(small_task(dense(200))).fused == {}

    class Large(Twice):
        def __init__(self):
            super().__init__()
            self.into, self.again, self.head = nn.Linear(144, 500), nn.Linear(500, 500), nn.Linear(500, 5)

    assert make_lean_module(small_task(Large)).fused == {}


@pytest.mark.parametrize("samples", [6, 1000], ids=["kept apart", "weights of its own"])
def test_a_fused_layer_is_a_linear_layer_under_sgd(samples):
    torch.manual_seed(0)
    like = nn.Linear(40, 30)
    fused = FusedLinear(like, Rate(lr=0.01))
    offered = like.weight.detach().clone(), like.bias.detach().clone()
    fused.begin(*offered, samples)
    assert (fused.past is not None) == (samples == 6)
    for step in range(3):
        x = torch.sin(torch.arange(80.0).reshape(2, 40) + step)
        ours, theirs = x.clone().requires_grad_(True), x.clone().requires_grad_(True)
        out, wanted = fused(ours), like(theirs)
        assert torch.allclose(out, wanted, atol=1e-5)
        out.square().sum().backward()
        like.zero_grad()
        wanted.square().sum().backward()
        assert torch.allclose(ours.grad, theirs.grad, atol=1e-5)
        with torch.no_grad():
            for p in like.parameters():
                p -= 0.01 * p.grad
    added = fused.update()
    weight = fused.weight if added is None else fused.weight + added
    assert torch.allclose(weight, like.weight, atol=1e-5)
    assert torch.allclose(fused.bias, like.bias, atol=1e-5)


def test_what_was_offered_is_never_written_to():
    task = small_task(dense(2000))
    jobs = jobs_of(task, fedavg(lr=0.1, batch=4, weight_decay=0.1), (9, 20, 3))
    before = content_hash(jobs[0].offer.params)
    list(stacked_executor(task, form="loop", threads=2).train(jobs))
    assert content_hash(jobs[0].offer.params) == before


def test_threads_change_no_bit_and_leave_torchs_own_as_they_were():
    task, local = small_task(smooth()), replace(PLAIN, rate=0.05)
    begun = [prepare_job(job) for job in jobs_with(task, local, (9, 20, 3, 8))]
    x, y = torch.from_numpy(task.dataset.x), torch.from_numpy(task.dataset.y)
    before = torch.get_num_threads()
    result = [train_in_loop(task, begun, x, y, threads, lambda _, trained: trained) for threads in (1, 2)]
    assert torch.get_num_threads() == before
    for one, other in zip(*result, strict=True):
        assert all(torch.equal(v, other.update[n]) for n, v in one.update.items())


def test_a_client_that_fails_is_named():
    task = small_task(smooth())
    jobs = jobs_of(task, fedavg(lr=0.1), (5, 4))
    jobs[1] = replace(jobs[1], rows=np.array([10_000]))
    with pytest.raises(RunFailed, match="client 1, task 1: local training failed"):
        list(stacked_executor(task, form="loop").train(jobs))


@pytest.mark.parametrize(("plan", "steps"), [(BatchPlan(4, 2), 0), (BatchPlan(4, 2, 5), 0), (BatchPlan(4, 2), 3)])
def test_a_pass_goes_through_no_more_samples_than_foreseen(plan, steps):
    (job,) = jobs_with(small_task(smooth()), replace(PLAIN, batches=plan), (10,), steps=steps)
    assert sum(len(rows) for rows in batches(plan, job)) <= samples_of(plan, job)
