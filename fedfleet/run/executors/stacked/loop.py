"""The lean loop: one client after the other, with nothing around the mathematics, on several CPU threads.

Convolutions and recurrences are already near a core's peak one client at a time, so on a CPU nothing is gained by merging
them. What can be saved is everything around them: rebuilt state, gradients that are written down only to be added, idle
cores. Plain SGD takes the lean way below; whatever else a pass asks for is interpreted literally.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch
from torch import nn

from fedfleet.core.parts import Job, LocalPass, Task
from fedfleet.core.records import Report
from fedfleet.core.trees import difference
from fedfleet.learn.optimisers import PlainSgd
from fedfleet.run.executors.inline import batches, train_one
from fedfleet.tasks.dropout import AddressedDropout, addresses

# Below this many weights a linear layer's gradient is too small to be worth avoiding.
_WORTH_FUSING = 200_000


@dataclass(slots=True)
class Rate:
    """The step that fused layers of one module take in their backward pass."""

    lr: float = 0.0
    decay: float = 1.0


class _FusedProduct(torch.autograd.Function):
    """y = x W^T + b, with W and b updated in the backward pass instead of handing their gradients on."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, trigger: torch.Tensor, leaf: FusedLinear) -> torch.Tensor:
        del trigger
        ctx.leaf = leaf
        ctx.save_for_backward(x)
        return nn.functional.linear(x, leaf.weight, leaf.bias)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor):
        (grad,) = grad_outputs
        leaf, rate = ctx.leaf, ctx.leaf.rate
        (x,) = ctx.saved_tensors
        down = grad @ leaf.weight if ctx.needs_input_grad[0] else None
        flat, inputs = grad.reshape(-1, grad.shape[-1]), x.reshape(-1, x.shape[-1])
        leaf.weight.addmm_(flat.T, inputs, beta=rate.decay, alpha=-rate.lr)
        leaf.bias.mul_(rate.decay).add_(flat.sum(0), alpha=-rate.lr)
        return down, None, None


class FusedLinear(nn.Module):
    """A linear layer that takes its own SGD step while the gradient passes through it."""

    def __init__(self, like: nn.Linear, rate: Rate) -> None:
        super().__init__()
        self.rate = rate
        self.weight: torch.Tensor
        self.bias: torch.Tensor
        self.register_buffer("weight", like.weight.detach().clone())
        self.register_buffer("bias", like.bias.detach().clone())
        self.trigger = torch.zeros((), requires_grad=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _FusedProduct.apply(x, self.trigger, self)


@dataclass(slots=True)
class Bench:
    """A module made for the loop, and what it trains."""

    module: nn.Module
    plain: nn.Module
    rate: Rate
    params: list[nn.Parameter]
    dropouts: list[AddressedDropout]


def make_bench(task: Task) -> Bench:
    """A module whose large linear layers update themselves; names and shapes stay those of the model."""
    module, rate = task.build(), Rate()
    for path, leaf in list(module.named_modules()):
        if isinstance(leaf, nn.Linear) and leaf.bias is not None and leaf.weight.numel() >= _WORTH_FUSING and path:
            parent, _, last = path.rpartition(".")
            setattr(module.get_submodule(parent), last, FusedLinear(leaf, rate))
    module.train()
    plain = task.build()
    plain.train()
    dropouts = [m for m in module.modules() if isinstance(m, AddressedDropout)]
    return Bench(module, plain, rate, list(module.parameters()), dropouts)


def loop_reports(task: Task, jobs: Sequence[Job], x: torch.Tensor, y: torch.Tensor, threads: int) -> list[Report]:
    """The reports of these jobs in order; each thread has a module of its own and runs its kernels alone."""
    if not jobs:
        return []
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # one kernel thread for each of ours: more would only wait for each other
    free: SimpleQueue[Bench] = SimpleQueue()
    for _ in range(threads):
        free.put(make_bench(task))

    def one(job: Job) -> Report:
        bench = free.get()
        try:
            assert isinstance(job.local, LocalPass)
            if is_plain(job.local):
                return train_lean(bench, job, job.local, x, y)
            return train_one(bench.plain, job, job.local, x, y)
        finally:
            free.put(bench)

    try:
        if threads == 1:
            return [one(job) for job in jobs]
        with ThreadPoolExecutor(threads, initializer=alone_on_its_core) as pool:
            return list(pool.map(one, jobs))
    finally:
        torch.set_num_threads(before)


def alone_on_its_core() -> None:
    """For a thread of ours: OpenMP keeps the number of kernel threads for each thread, and a new one would take them all."""
    torch.set_num_threads(1)


def is_plain(local: LocalPass) -> bool:
    """Is this pass SGD on everything, with nothing kept at home?"""
    return isinstance(local.optimiser, PlainSgd) and not local.terms and local.train is None and local.keep is None


def train_lean(bench: Bench, job: Job, local: LocalPass, x: torch.Tensor, y: torch.Tensor) -> Report:
    """One client's plain pass, in place."""
    if not len(job.rows):
        raise ValueError("its training shard is empty")
    plain = local.optimiser
    assert isinstance(plain, PlainSgd)
    state = bench.module.state_dict(keep_vars=True)
    with torch.no_grad():
        for name, value in job.offered.items():
            state[name].copy_(torch.from_numpy(value))
    bench.rate.lr, bench.rate.decay = plain.lr, 1.0 - plain.lr * plain.weight_decay
    loss_sum, seen, steps = 0.0, 0, 0
    for rows in batches(local.batches, job):
        batch = torch.from_numpy(rows)
        for leaf in bench.dropouts:
            place = addresses(job.seed, np.array([job.key], np.uint64), np.array([job.task]), steps)
            leaf.address = torch.from_numpy(place)
        loss = nn.functional.cross_entropy(bench.module(x[batch]), y[batch])
        loss.backward()
        with torch.no_grad():
            for p in bench.params:
                if p.grad is not None:
                    if plain.weight_decay:
                        p.mul_(bench.rate.decay)
                    p.add_(p.grad, alpha=-plain.lr)
                    p.grad = None
        loss_sum += float(loss.detach()) * len(rows)
        seen += len(rows)
        steps += 1
    after = {n: state[n].detach().numpy().copy() for n in job.offered}
    weight = float(len(job.rows)) if local.weigh == "samples" else 1.0
    stats = {"loss": loss_sum / max(seen, 1), "samples": float(len(job.rows)), "steps": float(steps)}
    return Report(job.task, job.client, difference(after, job.offered), weight, stats)
