"""The lean loop: one client after the other, with nothing around the mathematics, on several CPU threads.

Convolutions and recurrences are already near a core's peak one client at a time, so on a CPU nothing is gained by merging
them. What can be saved is everything around them: rebuilt state, gradients that are written down only to be added, idle
cores. Plain SGD takes the lean way below, with or without a pull to where it began;
whatever else a pass asks for is interpreted literally.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import TypeVar

import numpy as np
import torch
from torch import nn

from fedfleet.core.parts import Job, Task
from fedfleet.core.passes import BatchPlan, LocalPass, ProximalTerm
from fedfleet.executors.client_half import PreparedJob, Tallies, TrainedStack, batches, client_errors
from fedfleet.executors.inline import train_second_model, train_stages
from fedfleet.executors.stacked.linear_layers import FusedStep, PastSteps
from fedfleet.executors.stacked.stacked_model import reused_leaves
from fedfleet.executors.tensor_stacks import TORCH, stack_carry, stack_of_one
from fedfleet.tasks.dropout import AddressedDropout, addresses
from fedfleet.tasks.scores import sample_losses
from fedfleet.tasks.tied_weights import tied_names

T = TypeVar("T")

# Below this many weights a linear layer's gradient is too small to be worth avoiding.
_WORTH_FUSING = 200_000


@dataclass(slots=True)
class Rate:
    """The step that fused layers of one module take in their backward pass."""

    lr: float = 0.0
    decay: float = 1.0
    pull: float | None = None  # None: there is no such term


class FusedLinear(nn.Module):
    """A linear layer that takes its own SGD step while the gradient passes through it.

    Where the steps of a pass have few enough samples, its weights are those that were offered to everybody, never written
    to, and the steps are kept beside them as a sum of low rank, as in `linear`: what they come to is the update itself.
    """

    def __init__(self, like: nn.Linear, rate: Rate) -> None:
        super().__init__()
        self.rate = rate
        self.weight: torch.Tensor
        self.bias: torch.Tensor
        self.register_buffer("weight", like.weight.detach().clone())
        self.register_buffer("bias", like.bias.detach().clone())
        self.trigger = torch.zeros((), requires_grad=True)
        self.past: PastSteps | None = None
        self.anchor: tuple[torch.Tensor, torch.Tensor] = self.weight, self.bias

    def begin(self, weight: torch.Tensor, bias: torch.Tensor, samples: int) -> None:
        """Start a pass over so many samples from what was offered."""
        out, width = weight.shape
        self.bias.copy_(bias)
        self.anchor = weight, bias
        if self.rate.decay == 1.0 and samples * (out + width) <= out * width:
            self.weight, self.past = weight, PastSteps(weight.new_empty(samples, width), weight.new_empty(samples, out))
            return
        self.weight, self.past = weight.clone(), None

    def product(self, x: torch.Tensor) -> torch.Tensor:
        """The layer's output at its present weights."""
        y, past = nn.functional.linear(x, self.weight, self.bias), self.past
        if past is None or not past.used:
            return y
        near = x @ past.inputs[: past.used].T
        return y.sub_(near @ past.grads[: past.used], alpha=self.rate.lr)

    def back(self, grad: torch.Tensor) -> torch.Tensor:
        """The gradient of the input from that of the output."""
        down, past = grad @ self.weight, self.past
        if past is None or not past.used:
            return down
        near = grad @ past.grads[: past.used].T
        return down.sub_(near @ past.inputs[: past.used], alpha=self.rate.lr)

    def move(self, x: torch.Tensor, grad: torch.Tensor) -> None:
        """One step of plain SGD."""
        x, grad = x.reshape(-1, x.shape[-1]), grad.reshape(-1, grad.shape[-1])
        if self.past is not None and self.past.used + len(x) > len(self.past.inputs):
            self.settle()  # the layer sees more than one input for each sample
        rate, past = self.rate, self.past
        towards = 0.0 if rate.pull is None else rate.lr * rate.pull
        if past is None:
            self.weight.addmm_(grad.T, x, beta=rate.decay - towards, alpha=-rate.lr)
            if rate.pull is not None:
                self.weight.add_(self.anchor[0], alpha=towards)
        else:
            if rate.pull is not None:
                past.grads[: past.used] *= 1.0 - towards
            past.inputs[past.used : past.used + len(x)] = x
            past.grads[past.used : past.used + len(x)] = grad
            past.used += len(x)
        self.bias.mul_(rate.decay - towards).add_(grad.sum(0), alpha=-rate.lr)
        if rate.pull is not None:
            self.bias.add_(self.anchor[1], alpha=towards)

    def update(self) -> torch.Tensor | None:
        """What the pass has added to the weights, where it was kept apart from them."""
        past = self.past
        return None if past is None else (past.grads[: past.used].T @ past.inputs[: past.used]).mul_(-self.rate.lr)

    def settle(self) -> None:
        """Go on with weights of its own."""
        change = self.update()
        assert change is not None
        self.weight, self.past = change.add_(self.weight), None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return FusedStep.apply(x, self.trigger, self)


@dataclass(slots=True)
class LeanModule:
    """A module made for the loop, and what it trains."""

    module: nn.Module
    plain: nn.Module
    rate: Rate
    params: list[nn.Parameter]
    fused: dict[str, FusedLinear]
    dropouts: list[AddressedDropout]


def make_lean_module(task: Task) -> LeanModule:
    """A module whose large linear layers update themselves; names and shapes stay those of the model."""
    module, rate = task.build(), Rate()
    fused: dict[str, FusedLinear] = {}
    reused, ties = reused_leaves(module, torch.from_numpy(task.dataset.x[:2])), tied_names(module)
    shared = {*ties, *ties.values()}
    for path, leaf in list(module.named_modules()):
        trains_both = {*leaf._parameters} == {"weight", "bias"} and leaf.bias is not None  # neither is frozen inside the model
        large = isinstance(leaf, nn.Linear) and trains_both and leaf.weight.numel() >= _WORTH_FUSING
        if isinstance(leaf, nn.Linear) and large and path and path not in reused and f"{path}.weight" not in shared:
            parent, _, last = path.rpartition(".")
            fused[path] = FusedLinear(leaf, rate)
            setattr(module.get_submodule(parent), last, fused[path])
    module.train()
    plain = task.build()
    plain.train()
    dropouts = [m for m in module.modules() if isinstance(m, AddressedDropout)]
    return LeanModule(module, plain, rate, list(module.parameters()), fused, dropouts)


def train_in_loop(
    task: Task, group: Sequence[PreparedJob], x: torch.Tensor, y: torch.Tensor, threads: int, use: Callable[[int, TrainedStack], T]
) -> list[T]:
    """These clients trained, each a stack of one that is given to `use` with its place; what comes of each.

    Each thread has a module of its own and runs its kernels alone.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # one kernel thread for each of ours: more would only wait for each other
    free: SimpleQueue[LeanModule] = SimpleQueue()
    for _ in range(threads):
        free.put(make_lean_module(task))
    lean = is_plain(group[0].local)

    def train_one(k: int) -> T:
        return use(k, train_alone(group[k]))

    def train_alone(prepared: PreparedJob) -> TrainedStack:
        lean_module = free.get()
        try:
            with client_errors(prepared.job):
                if not lean:
                    return train_stages(lean_module.plain, prepared, x, y)
                second = train_second_model(lean_module.plain, prepared, x, y) if prepared.local.second is not None else {}
                return replace(train_lean(lean_module, prepared, x, y), second=second)
        finally:
            free.put(lean_module)

    try:
        if threads == 1:
            return [train_one(k) for k in range(len(group))]
        with ThreadPoolExecutor(threads, initializer=use_one_kernel_thread) as pool:
            return list(pool.map(train_one, range(len(group))))
    finally:
        torch.set_num_threads(before)


def use_one_kernel_thread() -> None:
    """For a thread of ours: OpenMP keeps the number of kernel threads for each thread, and a new one would take them all."""
    torch.set_num_threads(1)


def is_plain(local: LocalPass) -> bool:
    """Is this pass one stage of SGD on everything, with nothing kept at home but a model apart, and no term but a pull?"""
    linear = local.optimiser.linear
    independent = local.second is None or local.second.own is not None
    trains_all = local.train is None and local.keep is None and local.then is None and independent
    only_pulls = all(isinstance(term, ProximalTerm) for term in local.terms)
    return linear is not None and not linear.momentum and trains_all and only_pulls and local.objective is None


def train_lean(lean_module: LeanModule, prepared: PreparedJob, x: torch.Tensor, y: torch.Tensor) -> TrainedStack:
    """One client's plain pass, in place."""
    local, job = prepared.local, prepared.job
    assert local.optimiser.linear is not None
    lr, decay = prepared.rate(local), local.optimiser.linear.weight_decay
    lean_module.rate.lr, lean_module.rate.decay = lr, 1.0 - lr * decay
    pull = lean_module.rate.pull = sum(t.mu for t in local.terms if isinstance(t, ProximalTerm)) if local.terms else None
    params = {n: torch.from_numpy(np.asarray(v)) for n, v in prepared.start.items()}
    start = dict(params)
    samples = samples_of(local.batches, job)
    with torch.no_grad():
        for path, leaf in lean_module.fused.items():
            leaf.begin(params.pop(f"{path}.weight"), params.pop(f"{path}.bias"), samples)
        state = lean_module.module.state_dict(keep_vars=True)
        for name, value in params.items():
            state[name].copy_(value)
    anchors = [start[name] for name, _ in lean_module.module.named_parameters()]
    loss_sum, squared, samples_seen, steps = 0.0, 0.0, 0, 0
    for rows in batches(local.batches, job):
        batch = torch.from_numpy(rows)
        for leaf in lean_module.dropouts:
            place = addresses(job.seed, np.array([job.key], np.uint64), np.array([job.task]), steps)
            leaf.address = torch.from_numpy(place)
        each = sample_losses(lean_module.module(x[batch]), y[batch])
        each.mean().backward()
        with torch.no_grad():
            for p, anchor in zip(lean_module.params, anchors, strict=True):
                if p.grad is not None:
                    if pull is not None:
                        p.grad.add_(p - anchor, alpha=pull)
                    if decay:
                        p.mul_(lean_module.rate.decay)
                    p.add_(p.grad, alpha=-lr)
                    p.grad = None
            losses = each.detach()
            loss_sum += float(losses.sum())
            squared += float(losses.square().sum())
        samples_seen += len(rows)
        steps += 1
    tally = Tallies(*(np.array([v], np.float64) for v in (loss_sum, squared, samples_seen, steps)))
    carry = stack_carry([prepared], torch.device("cpu"))
    with torch.no_grad():
        return TrainedStack(TORCH, stack_of_one(start), {}, tally, carry, update=stack_of_one(_update(lean_module, start)))


def _update(lean_module: LeanModule, start: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """What the pass changed: kept apart from the weights by some layers, their difference for the rest."""
    kept_updates = {f"{path}.weight": leaf.update() for path, leaf in lean_module.fused.items()}
    state = lean_module.module.state_dict()
    result: dict[str, torch.Tensor] = {}
    for name, first in start.items():
        kept_update = kept_updates.get(name)
        # Counters travel as they are, and must not go on counting in the report.
        result[name] = (
            kept_update if kept_update is not None else state[name] - first if first.is_floating_point() else state[name].clone()
        )
    return result


def samples_of(plan: BatchPlan, job: Job) -> int:
    """How many samples a pass goes through at most."""
    steps = job.steps or plan.steps
    return steps * plan.size if steps else plan.epochs * len(job.rows)
