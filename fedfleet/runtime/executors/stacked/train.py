"""Training one stack: the local pass of many clients as one sequence of batched steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fedfleet.core.parts import LocalPass
from fedfleet.learn.optimisers import PlainSgd
from fedfleet.runtime.executors.stacked.schedule import Stacked
from fedfleet.runtime.executors.stacked.twin import Tensors, Twin
from fedfleet.tasks.dropout import addresses


@dataclass(slots=True)
class Trained:
    """A stack after its pass: start and end of every leaf, [clients, ..], and each client's mean loss."""

    start: Tensors
    end: Tensors
    loss: np.ndarray


def train_stack(
    twin: Twin, stacked: Stacked, local: LocalPass, start: Tensors, x: torch.Tensor, y: torch.Tensor
) -> Trained:
    """Run the pass; `start` holds what each client begins with. Clients that finish early leave the stack at its end."""
    names = [n for n in start if trainable(twin, n) and (local.train is None or local.train(n))]
    state = {n: v.clone() for n, v in start.items() if n not in names}
    # Leaves that update themselves would not know which of them are frozen.
    fused = isinstance(local.optimiser, PlainSgd) and not local.terms and local.train is None
    params = {n: start[n] if fused and shared(twin, n, start[n]) else start[n].clone() for n in names}
    twin.stack.steps = len(stacked.active)
    run = _Run(twin, local, fused, {n: v for n, v in start.items() if n in names})
    run.begin(params, state, len(stacked.jobs))
    rows, sizes = torch.from_numpy(stacked.rows).to(x.device), torch.from_numpy(stacked.sizes).to(x.device)
    places = step_addresses(twin, stacked, x.device)
    full = bool((stacked.sizes == stacked.rows.shape[2]).all())
    for t, active in enumerate(stacked.active):
        run.shrink(active)
        if places is not None:
            for leaf in twin.dropouts:
                leaf.address = places[t, :active]
        weights = None if full else _weights(sizes[t, :active], stacked.rows.shape[2])
        run.step(x[rows[t, :active].reshape(-1)], y[rows[t, :active].reshape(-1)], weights)
    end, loss = run.finish()
    seen = np.maximum(stacked.sizes.sum(0), 1)
    return Trained(start, end, loss.double().cpu().numpy() / seen)


def shared(twin: Twin, name: str, start: torch.Tensor) -> bool:
    """Do the clients of this stack begin with the same weights, which the leaf can leave alone until the end?"""
    return name in twin.shareable and start.stride(0) == 0 and len(start) > 1


def trainable(twin: Twin, name: str) -> bool:
    """Is this leaf a parameter, and not a running statistic?"""
    return twin.places[name][1] not in ("running_mean", "running_var", "num_batches_tracked")


def _weights(sizes: torch.Tensor, width: int) -> torch.Tensor:
    """1 for real samples, 0 for padding."""
    return (torch.arange(width, device=sizes.device) < sizes.unsqueeze(1)).float()


def step_addresses(twin: Twin, stacked: Stacked, device: torch.device) -> torch.Tensor | None:
    """The addresses of all dropout masks, [steps, clients]; None for a model without dropout."""
    if not twin.dropouts:
        return None
    jobs = stacked.jobs
    keys, tasks = np.array([j.key for j in jobs], np.uint64), np.array([j.task for j in jobs])
    return torch.from_numpy(np.stack([addresses(jobs[0].seed, keys, tasks, t) for t in range(len(stacked.rows))])).to(
        device
    )


def set_rate(twin: Twin, plain: PlainSgd, params: Tensors, device: torch.device) -> list[torch.Tensor]:
    """Let the leaves that can update themselves do so; the others' tensors, which need gradients, are returned."""
    stack = twin.stack
    stack.lr, stack.decay = plain.lr, 1.0 - plain.lr * plain.weight_decay
    stack.trigger = torch.zeros((), device=device, requires_grad=True)
    twin.load(params, stack.clients)
    return [getattr(*twin.places[n]).requires_grad_(True) for n in params if n not in twin.fusable]


def losses(
    twin: Twin, x: torch.Tensor, y: torch.Tensor, weights: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each client's summed loss on its batch, and the sum over clients of mean losses, whose gradients are the clients'."""
    clients = twin.stack.clients
    each = torch.nn.functional.cross_entropy(twin.module(x), y, reduction="none").reshape(clients, -1)
    if weights is None:
        sums = each.sum(1)
        return sums.detach(), (sums / each.shape[1]).sum()
    sums = (each * weights).sum(1)
    return sums.detach(), (sums / weights.sum(1)).sum()


def plain_step(twin: Twin, rest: list[torch.Tensor], total: torch.Tensor) -> None:
    """One step of plain SGD: the backward pass moves the fused leaves, the rest follows its gradients."""
    total.backward()
    stack = twin.stack
    assert stack.lr is not None
    with torch.no_grad():
        for p in rest:
            if p.grad is not None:
                if stack.decay != 1.0:
                    p.mul_(stack.decay)
                p.add_(p.grad, alpha=-stack.lr)
                p.grad = None


class _Run:
    """The tensors of a pass under way: those still training, and the tails of those that have finished."""

    def __init__(self, twin: Twin, local: LocalPass, fused: bool, anchor: Tensors) -> None:
        self.twin, self.local, self.fused, self.anchor = twin, local, fused, anchor
        self.tails: list[Tensors] = []
        self.rest: list[torch.Tensor] = []
        self.optimiser: Any = None

    def begin(self, params: Tensors, state: Tensors, clients: int) -> None:
        """Load the stack and, for a fused pass, tell the leaves to update themselves."""
        self.params, self.state, self.clients = params, state, clients
        stack = self.twin.stack
        stack.lr = stack.trigger = None
        self.device = next(iter(params.values())).device
        self.loss = torch.zeros(clients, device=self.device)
        self.twin.module.train()
        if not self.fused:
            self.optimiser = self.local.optimiser.init(params)
        self._load()

    def _load(self) -> None:
        self.twin.load({**self.params, **self.state}, self.clients)
        if self.fused:
            plain = self.local.optimiser
            assert isinstance(plain, PlainSgd)
            self.rest = set_rate(self.twin, plain, self.params, self.device)

    def shrink(self, active: int) -> None:
        """Let the clients beyond `active`, which have finished, out of the stack."""
        if active == self.clients:
            return
        self._collect()
        self.tails.append({n: v[active:].clone() for n, v in {**self.params, **self.state}.items()})
        cut = lambda tree: {n: v[:active].contiguous() for n, v in tree.items()}  # noqa: E731
        self.params, self.state, self.anchor = cut(self.params), cut(self.state), cut(self.anchor)
        self.optimiser = _cut(self.optimiser, active)
        self.clients = active
        self._load()

    def step(self, x: torch.Tensor, y: torch.Tensor, weights: torch.Tensor | None) -> None:
        """One step of every active client on its own batch."""
        self.twin.stack.weights = weights
        if not self.fused:
            for p in self.params.values():
                p.requires_grad_(True)
            self.twin.load(self.params, self.clients)
        sums, total = losses(self.twin, x, y, weights)
        self.loss[: self.clients] += sums
        if self.fused:
            plain_step(self.twin, self.rest, total)
            return
        found = torch.autograd.grad(total, list(self.params.values()), allow_unused=True)
        with torch.no_grad():
            grads = {
                n: torch.zeros_like(p) if g is None else g for (n, p), g in zip(self.params.items(), found, strict=True)
            }
            for term in self.local.terms:
                extra = term(self.params, self.anchor, {})
                grads = {n: g + extra[n] if n in extra else g for n, g in grads.items()}
            self.params, self.optimiser = self.local.optimiser.update(self.params, grads, self.optimiser)
            self.params = {n: p.detach() for n, p in self.params.items()}

    def finish(self) -> tuple[Tensors, torch.Tensor]:
        """All clients' tensors in the order of the stack, and the sums of their losses."""
        self._collect()
        parts = [{**self.params, **self.state}, *self.tails[::-1]]
        stack = self.twin.stack
        stack.lr = stack.trigger = stack.weights = None
        return {n: torch.cat([part[n] for part in parts]) for n in parts[0]} if self.tails else parts[0], self.loss

    def _collect(self) -> None:
        """Take back what leaves have changed themselves: fused weights, running statistics."""
        if self.fused:
            self.params = {n: v.detach() for n, v in self.twin.read(list(self.params)).items()}
        self.state = self.twin.read(list(self.state))


def _cut(state: object, active: int) -> object:
    """An optimiser's state for the first clients only."""
    if isinstance(state, torch.Tensor):
        return state[:active].contiguous()
    if isinstance(state, dict):
        return {n: _cut(v, active) for n, v in state.items()}
    if isinstance(state, tuple):
        return tuple(_cut(v, active) for v in state)
    return state
