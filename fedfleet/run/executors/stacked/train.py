"""Training one stack: the local pass of many clients as one sequence of batched steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from fedfleet.core.parts import LocalPass
from fedfleet.learn.optimisers import PlainSgd
from fedfleet.run.executors.stacked.schedule import Stacked
from fedfleet.run.executors.stacked.twin import Tensors, Twin
from fedfleet.tasks.dropout import addresses


@dataclass(slots=True)
class Trained:
    """A stack after its pass: start and end of every leaf, [clients, ..], and each client's mean loss."""

    start: Tensors
    end: Tensors
    loss: np.ndarray


def train_stack(twin: Twin, stacked: Stacked, local: LocalPass, start: Tensors, x: torch.Tensor, y: torch.Tensor) -> Trained:
    """Run the pass; `start` holds what each client begins with. Clients that finish early leave the stack at its end."""
    names = [n for n in start if n in twin.places and _trainable(twin, n, local)]
    state = {n: v.clone() for n, v in start.items() if n not in names}
    params = {n: start[n].clone() for n in names}
    fused = isinstance(local.optimiser, PlainSgd) and not local.terms and all(n in twin.fusable for n in names)
    run = _Run(twin, local, fused, {n: v for n, v in start.items() if n in names})
    run.begin(params, state, len(stacked.jobs))
    rows, sizes = torch.from_numpy(stacked.rows).to(x.device), torch.from_numpy(stacked.sizes).to(x.device)
    full = bool((stacked.sizes == stacked.rows.shape[2]).all())
    for t, active in enumerate(stacked.active):
        run.shrink(active)
        if twin.dropouts:
            _address(twin, stacked, active, t, x.device)
        weights = None if full else _weights(sizes[t, :active], stacked.rows.shape[2])
        run.step(x[rows[t, :active].reshape(-1)], y[rows[t, :active].reshape(-1)], weights)
    end, loss = run.finish()
    seen = np.maximum(stacked.sizes.sum(0), 1)
    return Trained(start, end, loss.double().cpu().numpy() / seen)


def _trainable(twin: Twin, name: str, local: LocalPass) -> bool:
    leaf, attribute = twin.places[name]
    del leaf
    parameter = attribute not in ("running_mean", "running_var", "num_batches_tracked")
    return parameter and (local.train is None or local.train(name))


def _weights(sizes: torch.Tensor, width: int) -> torch.Tensor:
    """1 for real samples, 0 for padding."""
    return (torch.arange(width, device=sizes.device) < sizes.unsqueeze(1)).float()


def _address(twin: Twin, stacked: Stacked, active: int, step: int, device: torch.device) -> None:
    jobs = stacked.jobs[:active]
    keys, tasks = np.array([j.key for j in jobs], np.uint64), np.array([j.task for j in jobs])
    place = torch.from_numpy(addresses(jobs[0].seed, keys, tasks, step)).to(device)
    for leaf in twin.dropouts:
        leaf.address = place


class _Run:
    """The tensors of a pass under way: those still training, and the tails of those that have finished."""

    def __init__(self, twin: Twin, local: LocalPass, fused: bool, anchor: Tensors) -> None:
        self.twin, self.local, self.fused, self.anchor = twin, local, fused, anchor
        self.tails: list[Tensors] = []

    def begin(self, params: Tensors, state: Tensors, clients: int) -> None:
        """Load the stack and, for a fused pass, tell the leaves to update themselves."""
        self.params, self.state, self.clients = params, state, clients
        stack = self.twin.stack
        stack.lr = stack.trigger = None
        stack.decay = 1.0
        device = next(iter(params.values())).device
        self.loss = torch.zeros(clients, device=device)
        if self.fused:
            plain = self.local.optimiser
            assert isinstance(plain, PlainSgd)
            stack.lr, stack.decay = plain.lr, 1.0 - plain.lr * plain.weight_decay
            stack.trigger = torch.zeros((), device=device, requires_grad=True)
            self.optimiser = None
        else:
            self.optimiser = self.local.optimiser.init(params)
        self.twin.module.train()
        self.twin.load({**params, **state}, clients)

    def shrink(self, active: int) -> None:
        """Let the clients beyond `active`, which have finished, out of the stack."""
        if active == self.clients:
            return
        self._collect()
        self.tails.append({n: v[active:].clone() for n, v in {**self.params, **self.state}.items()})
        cut = lambda tree: {n: v[:active].contiguous() for n, v in tree.items()}  # noqa: E731
        self.params, self.state, self.anchor = cut(self.params), cut(self.state), cut(self.anchor)
        if self.optimiser is not None:
            self.optimiser = _cut(self.optimiser, active)
        self.clients = active
        self.twin.load({**self.params, **self.state}, active)

    def step(self, x: torch.Tensor, y: torch.Tensor, weights: torch.Tensor | None) -> None:
        """One step of every active client on its own batch."""
        twin, clients = self.twin, self.clients
        twin.stack.weights = weights
        if not self.fused:
            for p in self.params.values():
                p.requires_grad_(True)
            twin.load(self.params, clients)
        each = torch.nn.functional.cross_entropy(twin.module(x), y, reduction="none").reshape(clients, -1)
        if weights is None:
            sums = each.sum(1)
            total = (sums / each.shape[1]).sum()
        else:
            sums = (each * weights).sum(1)
            total = (sums / weights.sum(1)).sum()
        self.loss[:clients] += sums.detach()
        if self.fused:
            total.backward()
            return
        found = torch.autograd.grad(total, list(self.params.values()), allow_unused=True)
        with torch.no_grad():
            grads = {n: torch.zeros_like(p) if g is None else g for (n, p), g in zip(self.params.items(), found, strict=True)}
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
        twin = self.twin
        if self.fused:
            self.params = twin.read(list(self.params))
        self.state = twin.read(list(self.state))


def _cut(state: object, active: int) -> object:
    """An optimiser's state for the first clients only."""
    if isinstance(state, torch.Tensor):
        return state[:active].contiguous()
    if isinstance(state, dict):
        return {n: _cut(v, active) for n, v in state.items()}
    if isinstance(state, tuple):
        return tuple(_cut(v, active) for v in state)
    return state
