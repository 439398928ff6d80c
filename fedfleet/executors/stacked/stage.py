"""Training one stage of a stack: the steps of many clients as one sequence of batched steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from fedfleet.core.passes import SECOND, Batch, Carry, ConstantTerm, LocalPass
from fedfleet.executors.client_half import STAGE_STRIDE, Tallies
from fedfleet.executors.inline import split_second_model
from fedfleet.executors.stacked.fused_step import Move, fused_rule
from fedfleet.executors.stacked.schedule import Schedule, seeds_of
from fedfleet.executors.stacked.stacked_model import Tensors, Twin
from fedfleet.executors.tensor_stacks import is_accelerator
from fedfleet.tasks.dropout import addresses
from fedfleet.tasks.scores import sample_losses


@dataclass(slots=True)
class Work:
    """One stage as a kernel sees it, in the order of its schedule: where each client stands, and what it carries.

    `begin` is where the stage begins, `anchor` where the whole pass began; `rates` has one entry per client.
    """

    stage: LocalPass
    schedule: Schedule
    begin: Tensors
    anchor: Tensors
    carried: Carry
    second: Tensors
    rates: np.ndarray

    @property
    def rate(self) -> float | None:
        """The learning rate, where all clients have the same."""
        return float(self.rates[0]) if (self.rates == self.rates[0]).all() else None


@dataclass(slots=True)
class StageEnd:
    """Where the clients of a stage ended, in the order of its schedule."""

    end: Tensors
    second: Tensors
    tallies: Tallies


def train_stage(twin: Twin, work: Work, x: torch.Tensor, y: torch.Tensor) -> StageEnd:
    """Run a stage. Clients that finish early leave the stack at its end."""
    plan = work.schedule
    run = StageRun(twin, work)
    rows, sizes = torch.from_numpy(plan.rows).to(x.device), torch.from_numpy(plan.sizes).to(x.device)
    places = step_addresses(twin, plan, x.device)
    full = bool((plan.sizes == plan.rows.shape[2]).all())
    for t, active in enumerate(plan.active):
        run.shrink(active)
        twin.stack.fewest = int(plan.sizes[t, :active].min())
        weights = None if full else _sample_mask(sizes[t, :active], plan.rows.shape[2])
        step_places = None if places is None else places[t, :active]
        run.step(x[rows[t, :active].reshape(-1)], y[rows[t, :active].reshape(-1)], weights, step_places)
    end, second = run.finish()
    return StageEnd(end, second, stage_tallies(plan, torch.stack([run.loss, run.squared])))


def stage_tallies(plan: Schedule, counted: torch.Tensor) -> Tallies:
    """What was counted on the device, with what the schedule knows."""
    sums: Any = counted.double()
    if counted.device.type == "cpu":
        sums = sums.numpy()
    return Tallies(sums[0], sums[1], plan.sizes.sum(0).astype(np.float64), (plan.sizes > 0).sum(0).astype(np.float64))


def shares_weights(twin: Twin, name: str, start: torch.Tensor) -> bool:
    """Do the clients of this stack begin with the same weights, which the leaf can leave alone until the end?"""
    return name in twin.shareable and start.stride(0) == 0 and len(start) > 1


def trainable(twin: Twin, name: str) -> bool:
    """Is this leaf a parameter, and not a running statistic?"""
    return twin.places[name][1] not in ("running_mean", "running_var", "num_batches_tracked")


def _sample_mask(sizes: torch.Tensor, width: int) -> torch.Tensor:
    """1 for real samples, 0 for padding."""
    return (torch.arange(width, device=sizes.device) < sizes.unsqueeze(1)).float()


def step_addresses(twin: Twin, plan: Schedule, device: torch.device) -> torch.Tensor | None:
    """The addresses of all dropout masks, [steps, clients]; None for a model without dropout."""
    if not twin.dropouts:
        return None
    jobs = plan.jobs
    keys, tasks = np.array([j.key for j in jobs], np.uint64), np.array([j.task for j in jobs])
    step_rows = [addresses(seeds_of(jobs), keys, tasks, t + STAGE_STRIDE * plan.stage) for t in range(len(plan.rows))]
    return torch.from_numpy(np.stack(step_rows)).to(device)


def on_accelerator(work: Work) -> bool:
    """Does it train on an accelerator? There memory decides how long it takes, and leaves that move themselves do more."""
    return is_accelerator(next(iter(work.begin.values())).device)


def can_fuse(twin: Twin, work: Work) -> bool:
    """Can the leaves update themselves all through this stage?"""
    stage = work.stage
    if fused_rule(stage, constants=on_accelerator(work)) is None or work.second:
        return False
    names = None if stage.train is None else {n for n in work.begin if trainable(twin, n) and stage.train(n)}
    return twin.freeze(names)


@dataclass(slots=True)
class StageRun:
    """The tensors of a stage under way: those still training, and the tails of those that have finished."""

    twin: Twin
    work: Work
    in_place: bool = False  # work in the very memory that it begins with?
    fused: bool = False
    clients: int = 0
    params: Tensors = field(default_factory=dict)  # what is trained; the second model's under names of its own
    state: Tensors = field(default_factory=dict)  # what is not: frozen leaves and running statistics, of both models
    anchor: Tensors = field(default_factory=dict)
    constant_terms: list[Any] = field(default_factory=list)
    tails: list[Tensors] = field(default_factory=list)
    unfused: dict[str, torch.Tensor] = field(default_factory=dict)
    rates: dict[str, Any] = field(default_factory=dict)
    optimiser: Any = None
    loss: torch.Tensor = field(default_factory=lambda: torch.zeros(0))
    squared: torch.Tensor = field(default_factory=lambda: torch.zeros(0))

    def __post_init__(self) -> None:
        twin, work = self.twin, self.work
        begin, stage = work.begin, work.stage
        names = [n for n in begin if trainable(twin, n) and (stage.train is None or stage.train(n))]
        self.fused = can_fuse(twin, work)
        borrowed = {n for n in names if self.in_place or (self.fused and shares_weights(twin, n, begin[n]))}
        self.params = {n: begin[n] if n in borrowed else begin[n].clone() for n in names}
        # Frozen weights are nobody's to change, and may be shared; running statistics change as they are used.
        live = {n for n in begin if self.in_place or trainable(twin, n)}
        self.state = {n: v if n in live else v.clone() for n, v in begin.items() if n not in names}
        for name, value in work.second.items():
            (self.params if name in names else self.state)[f"{SECOND}/{name}"] = value.clone()
        self.anchor = {n: work.anchor[n] for n in names}
        self.clients = len(work.schedule.jobs)
        device = next(iter(begin.values())).device
        self.loss, self.squared = torch.zeros(self.clients, device=device), torch.zeros(self.clients, device=device)
        twin.module.train()
        stack, plan = twin.stack, work.schedule
        stack.steps, stack.even = len(plan.active), all(a == self.clients for a in plan.active)
        stack.own_past = on_accelerator(work) and not self.in_place
        stack.move = stack.trigger = None
        self._set_rates(device)
        if self.fused:
            stack.move = self._make_move(device)
        else:
            carry = work.carried
            self.constant_terms = [t.compute(work.anchor, carry) for t in stage.terms if isinstance(t, ConstantTerm)]
            self.optimiser = stage.optimiser.init(self.params)
        self._load_twin()

    def _set_rates(self, device: torch.device) -> None:
        """The learning rate of each leaf: one number, or one per client in a shape that broadcasts."""
        rate = self.work.rate
        if rate is not None:
            self.rates = dict.fromkeys(self.params, rate)
            return
        each = torch.from_numpy(self.work.rates[: self.clients].astype(np.float32)).to(device)
        self.rates = {n: each.reshape(-1, *(1,) * (p.dim() - 1)) for n, p in self.params.items()}

    def _make_move(self, device: torch.device) -> Move:
        work = self.work
        rule = fused_rule(work.stage, constants=on_accelerator(work))
        assert rule is not None
        linear, pull = rule
        rate = work.rate
        each = rate if rate is not None else torch.from_numpy(work.rates.astype(np.float32)).to(device)
        anchor = {n: self.twin.to_leaf_shape(n, v) for n, v in self.anchor.items()} if pull else {}
        apart = on_accelerator(work) and work.anchor is not work.begin
        move = Move(each, linear.momentum, linear.weight_decay, pull, anchor, apart=apart, constant=self._constants())
        if not move.plain:
            move.tabulate(len(self.work.schedule.active), device)
        return move

    def _constants(self) -> Tensors:
        """The terms that stay the same, together, of each leaf that is trained."""
        total: Tensors = {}
        for term in self.work.stage.terms:
            if isinstance(term, ConstantTerm):
                for name, value in term.compute(self.work.anchor, self.work.carried).items():
                    if name in self.params:
                        total[name] = total[name] + value if name in total else value
        return {n: self.twin.to_leaf_shape(n, v) for n, v in total.items()}

    def _load_twin(self) -> None:
        own, _ = split_second_model({**self.params, **self.state})
        self.twin.load(own, self.clients)
        if self.fused:
            own, _ = split_second_model(self.params)
            self.twin.stack.trigger = torch.zeros((), device=self.loss.device, requires_grad=True)
            waiting = [n for n in own if n not in self.twin.fusable]
            self.unfused = {n: getattr(*self.twin.places[n]).requires_grad_(True) for n in waiting}

    def shrink(self, active: int) -> None:
        """Let the clients beyond `active`, which have finished, out of the stack."""
        if active == self.clients:
            return
        self._collect()
        ending = {**self.params, **{n: v for n, v in self.state.items() if not _is_common(v)}}
        self.tails.append({n: v[active:].clone() for n, v in ending.items()})
        cut = lambda tree: {n: v[:active] for n, v in tree.items()}  # noqa: E731
        self.params, self.state = cut(self.params), cut(self.state)
        self.anchor, self.constant_terms = cut(self.anchor), [cut(tree) for tree in self.constant_terms]
        carry = self.work.carried
        memory = {slot: cut(tree) for slot, tree in carry.memory.items()}
        self.work = replace(self.work, carried=Carry(memory, cut(carry.given)))
        self.optimiser = _shrink_state(self.optimiser, active)
        self.clients = active
        if self.work.rate is None:
            self._set_rates(self.loss.device)
        if self.twin.stack.move is not None:
            self.twin.stack.move.shrink(active)
        self._load_twin()

    def step(self, x: torch.Tensor, y: torch.Tensor, weights: torch.Tensor | None, address: torch.Tensor | None) -> None:
        """One step of every active client on its own batch."""
        self.twin.stack.weights = weights
        if address is not None:
            for leaf in self.twin.dropouts:
                leaf.address = address
        if self.fused:
            self._fused_step(self._losses(x, y, weights))
            return
        self.params = {n: p.detach().requires_grad_(True) for n, p in self.params.items()}
        own, _ = split_second_model(self.params)
        both, other = split_second_model({**self.params, **self.state})
        self.twin.load(both, self.clients)
        total = self._losses(x, y, weights, both, other)
        raw_grads = torch.autograd.grad(total, list(self.params.values()), allow_unused=True)
        with torch.no_grad():
            grads = {n: torch.zeros_like(p) if g is None else g for (n, p), g in zip(self.params.items(), raw_grads, strict=True)}
            self._add_terms(grads, own)
            update = self.work.stage.optimiser.update
            self.params, self.optimiser = update(self.params, grads, self.optimiser, self.rates)

    def _add_terms(self, grads: Tensors, own: Tensors) -> None:
        for term in self.work.stage.terms:
            if not isinstance(term, ConstantTerm):
                for name, extra in term(own, self.anchor, self.work.carried).items():
                    grads[name] = grads[name] + extra
        for drift in self.constant_terms:
            for name, extra in drift.items():
                if name in grads:
                    grads[name] = grads[name] + extra

    def _losses(
        self,
        x: torch.Tensor,
        y: torch.Tensor,
        weights: torch.Tensor | None,
        params: Tensors | None = None,
        second: Tensors | None = None,
    ) -> torch.Tensor:
        """The sum over clients of their losses, whose gradients are the clients' own; and the counts."""
        objective, clients = self.work.stage.objective, self.clients
        if objective is None:
            each = sample_losses(self.twin.run(x), y).reshape(clients, -1)
            each_loss = each.detach() if weights is None else each.detach() * weights
            self._count(each_loss.sum(1), each_loss.square().sum(1))
            if weights is None:
                return (each.sum(1) / each.shape[1]).sum()
            return ((each * weights).sum(1) / weights.sum(1)).sum()
        mean = _mean(clients, weights)
        batch = Batch(x, y, mean, _per_client(clients, weights, y))
        client_losses = objective(self._forward, params or {}, second or {}, self.work.carried, batch).reshape(clients)
        samples = torch.full_like(client_losses.detach(), len(y) // clients) if weights is None else weights.sum(1)
        self._count(client_losses.detach() * samples, client_losses.detach().square() * samples)
        return client_losses.sum()

    def _forward(self, params: Any, x: Any) -> torch.Tensor:
        """The model at these parameters; what they leave out is as it is in the stack."""
        self.twin.load(dict(params), self.clients)
        return self.twin.run(x)

    def _count(self, loss: torch.Tensor, squared: torch.Tensor) -> None:
        self.loss[: self.clients] += loss
        self.squared[: self.clients] += squared

    def _fused_step(self, total: torch.Tensor) -> None:
        """The backward pass moves the leaves that can; the rest follows its gradients."""
        total.backward()
        move = self.twin.stack.move
        assert move is not None
        with torch.no_grad():
            for name, p in self.unfused.items():
                if p.grad is not None:
                    move.step(name, p, p.grad)
                    p.grad = None

    def finish(self) -> tuple[Tensors, Tensors]:
        """All clients' tensors in the order of the stack: the model's, and the second one's."""
        self._collect()
        parts = [{**self.params, **self.state}, *self.tails[::-1]]
        stack = self.twin.stack
        stack.move = stack.trigger = stack.weights = None
        tensors = parts[0]
        if self.tails:  # what all share was left in one piece when some went
            n = len(self.work.schedule.jobs)
            tensors = {
                name: v[:1].expand(n, *v.shape[1:]) if name not in self.tails[0] else torch.cat([p[name] for p in parts])
                for name, v in tensors.items()
            }
        own, other = split_second_model(tensors)
        return {n: own[n] for n in self.work.begin}, {n: other[n] for n in self.work.second}

    def _collect(self) -> None:
        """Take back the weights that leaves have moved themselves; running statistics change in place, where they are."""
        own, other = split_second_model(self.params)
        if self.fused:
            own = {n: v.detach() for n, v in self.twin.read(list(own)).items()}
        self.params = {n: v.detach() for n, v in own.items()} | {f"{SECOND}/{n}": v.detach() for n, v in other.items()}


def _is_common(stack: torch.Tensor) -> bool:
    """Is this one tensor that every client of the stack sees?"""
    return stack.stride(0) == 0 and len(stack) > 1


def _mean(clients: int, weights: torch.Tensor | None) -> Callable[[torch.Tensor], torch.Tensor]:
    def mean(values: torch.Tensor) -> torch.Tensor:
        each = values.reshape(clients, len(values) // clients, -1).mean(2)
        return each.mean(1) if weights is None else (each * weights).sum(1) / weights.sum(1)

    return mean


def _per_client(clients: int, weights: torch.Tensor | None, y: torch.Tensor) -> Callable[..., torch.Tensor]:
    """A function of all of a client's samples together is called client by client, without the padding."""

    def per_client(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], outputs: torch.Tensor) -> torch.Tensor:
        width = len(y) // clients
        sizes = [width] * clients if weights is None else weights.sum(1).long().tolist()
        parts = [slice(c * width, c * width + n) for c, n in enumerate(sizes)]
        return torch.stack([function(outputs[part], y[part]).reshape(()) for part in parts])

    return per_client


def _shrink_state(state: object, active: int) -> object:
    """An optimiser's state for the first clients only."""
    if isinstance(state, torch.Tensor):
        return state[:active].contiguous()
    if isinstance(state, dict):
        return {n: _shrink_state(v, active) for n, v in state.items()}
    if isinstance(state, tuple):
        return tuple(_shrink_state(v, active) for v in state)
    return state
