"""The literal executor: one client after the other, one step after the other. The reference for all others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.func import functional_call

from fedfleet.core.edges import NestedPass
from fedfleet.core.parts import Executor, Job, Task, Trial
from fedfleet.core.passes import SECOND, Batch, Carry, LocalPass
from fedfleet.core.records import Report, Score
from fedfleet.core.trees import Tree
from fedfleet.executors.client_half import (
    STAGE_STRIDE,
    PreparedJob,
    Tallies,
    TrainedStack,
    batches,
    client_errors,
    prepare_job,
    reports,
    second_model_stages,
)
from fedfleet.executors.tensor_stacks import TORCH, Tensors, stack_of_one
from fedfleet.tasks.dropout import addresses, dropout_names
from fedfleet.tasks.measures import Measuring, needs_measures
from fedfleet.tasks.narrow_models import at_width
from fedfleet.tasks.scores import measure_batch, sample_counts, sample_losses, spread_tensor

EVALUATION_BATCH = 2048


def inline(task: Task, *, threads: int = 1) -> Executor:
    """An executor in this process, bitwise repeatable: fixed threads, deterministic kernels."""
    torch.set_num_threads(threads)
    torch.set_deterministic_debug_mode("error")  # deterministic kernels; this spelling does not load the compiler
    module = task.build()
    models = {1.0: module}  # by the share of its width
    x = torch.from_numpy(task.dataset.x)
    y = torch.from_numpy(task.dataset.y)

    def model_at(width: float) -> Any:
        if width not in models:
            models[width] = at_width(task, width).build()
        return models[width] if models[width].training else models[width].train()

    def train(jobs: Sequence[Job]) -> Iterator[Report]:
        for job in jobs:
            with client_errors(job):
                if isinstance(job.local, LocalPass):
                    report = train_client(model_at, job, x, y)
                elif isinstance(job.local, NestedPass):
                    raise ValueError("it is an edge, and needs the nested executor")
                else:
                    report = job.local(job, task.dataset)
            yield report

    def evaluate(trials: Sequence[Trial]) -> Iterable[Score]:
        module.eval()
        loaded: tuple[int, Tensors] | None = None
        for trial in trials:
            if loaded is None or loaded[0] != id(trial.params):
                loaded = (id(trial.params), tensors(trial.params))
            yield score(module, loaded[1], x, y, trial, task)

    return Executor("inline", train, evaluate)


def train_client(model_at: Callable[[float], Any], job: Job, x: torch.Tensor, y: torch.Tensor) -> Report:
    """One client's whole half: from what was offered (and kept at home) to a report; `model_at(width)` is the module."""
    prepared = prepare_job(job)
    return next(reports([prepared], train_stages(model_at(prepared.local.width), prepared, x, y)))


def train_stages(module: Any, prepared: PreparedJob, x: torch.Tensor, y: torch.Tensor) -> TrainedStack:
    """All stages of one client's pass, one after the other; a stack of one at the end."""
    state = tensors(prepared.start)
    start = {n: v.clone() for n, v in state.items()}
    carry = Carry({slot: tensors(tree) for slot, tree in prepared.memory.items()}, tensors(prepared.extra))
    second_stages = second_model_stages(prepared.local)
    second = {} if second_stages else dict(carry.memory.get(SECOND, {}))
    tallies: Tallies | None = None
    for number, stage in enumerate(prepared.local.stages()):
        stage_run = _Stage(module, prepared, stage, start, carry, x, y, number)
        state, second, tally = stage_run.train(state, second)
        tallies = tally if tallies is None else tallies.add(tally)
    assert tallies is not None
    stack = Carry({slot: stack_of_one(tree) for slot, tree in carry.memory.items()}, stack_of_one(carry.given))
    return TrainedStack(
        TORCH,
        stack_of_one(start),
        stack_of_one(state),
        tallies,
        stack,
        train_second_model(module, prepared, x, y) if second_stages else stack_of_one(second),
    )


def train_second_model(module: Any, prepared: PreparedJob, x: torch.Tensor, y: torch.Tensor) -> Tensors:
    """The second model after its own pass, as a stack of one; what was counted there is the client's own affair."""
    state, start = tensors(prepared.memory[SECOND]), tensors(prepared.start)
    others = {slot: tensors(tree) for slot, tree in prepared.memory.items() if slot != SECOND}
    carry = Carry(others, tensors(prepared.extra))
    for number, stage in second_model_stages(prepared.local):
        state, _, _ = _Stage(module, prepared, stage, start, carry, x, y, number).train(state, {})
    return stack_of_one(state)


class _Stage:
    """One stage of one client's pass, literally."""

    def __init__(
        self, module: Any, prepared: PreparedJob, stage: LocalPass, start: Tensors, carry: Carry, x: Any, y: Any, number: int
    ) -> None:
        self.module, self.prepared, self.stage, self.number = module, prepared, stage, number
        self.start, self.carry, self.x, self.y = start, carry, x, y
        self.dropouts = dropout_names(module)

    def train(self, state: Tensors, second: Tensors) -> tuple[Tensors, Tensors, Tallies]:
        """The stage from these tensors on."""
        stage, prepared = self.stage, self.prepared
        state = dict(state)
        names = [n for n, _ in self.module.named_parameters() if stage.train is None or stage.train(n)]
        params: Tensors = {n: state.pop(n) for n in names}
        params |= {f"{SECOND}/{n}": second[n] for n in names if n in second}  # trained beside, under names of their own
        fixed = {n: v for n, v in second.items() if n not in names}
        rates = dict.fromkeys(params, prepared.rate(stage))
        optimiser = stage.optimiser.init(params)
        loss_sum = squared = 0.0
        samples = steps = 0
        for rows in batches(stage.batches, prepared.job, self.number):
            self._set_dropout(state, steps)
            params = {n: p.detach().requires_grad_(True) for n, p in params.items()}
            own, other = split_second_model(params)
            total, losses, squares = self._loss({**own, **state}, {**fixed, **other}, torch.from_numpy(rows))
            gradients = torch.autograd.grad(total, list(params.values()), allow_unused=True)
            with torch.no_grad():
                grads: Tensors = {
                    n: torch.zeros_like(p) if g is None else g for (n, p), g in zip(params.items(), gradients, strict=True)
                }
                for term in stage.terms:
                    for name, extra in term(own, self.start, self.carry).items():
                        grads[name] = grads[name] + extra
                params, optimiser = stage.optimiser.update(params, grads, optimiser, rates)
            loss_sum += losses
            squared += squares
            samples += len(rows)
            steps += 1
        own, other = split_second_model({n: p.detach() for n, p in params.items()})
        tally = Tallies(*(np.array([v], np.float64) for v in (loss_sum, squared, samples, steps)))
        return {n: {**state, **own}[n] for n in prepared.start}, {**fixed, **other}, tally

    def _set_dropout(self, state: Tensors, step: int) -> None:
        """Say which units dropout drops in this step."""
        if self.dropouts:
            job = self.prepared.job
            key, task = np.array([job.key], np.uint64), np.array([job.task])
            place = addresses(job.seed, key, task, step + STAGE_STRIDE * self.number)
            state |= dict.fromkeys(self.dropouts, torch.from_numpy(place))

    def _loss(self, params: Tensors, second: Tensors, rows: torch.Tensor) -> tuple[torch.Tensor, float, float]:
        """What is differentiated, and the sums of losses and of their squares for the statistics."""
        x, y = self.x[rows], self.y[rows]
        if self.stage.objective is None:
            each = sample_losses(functional_call(self.module, params, (x,)), y)
            losses = each.detach()
            return each.mean(), float(losses.sum()), float(losses.square().sum())

        def forward(overrides: Any, inputs: Any) -> Any:
            return functional_call(self.module, {**params, **overrides}, (inputs,))

        def mean(values: torch.Tensor) -> torch.Tensor:
            return values.reshape(1, len(rows), -1).mean((1, 2))

        def per_client(function: Any, outputs: torch.Tensor) -> torch.Tensor:
            return function(outputs, y)

        batch = Batch(x, y, mean, per_client)
        loss = self.stage.objective(forward, params, second, self.carry, batch).reshape(())
        value = float(loss.detach())
        return loss, value * len(rows), value * value * len(rows)


def split_second_model(params: Tensors) -> tuple[Tensors, Tensors]:
    """What belongs to the model, and what to the second one."""
    prefix = f"{SECOND}/"
    own = {n: v for n, v in params.items() if not n.startswith(prefix)}
    return own, {n.removeprefix(prefix): v for n, v in params.items() if n.startswith(prefix)}


def score(module: Any, params: Tensors, x: torch.Tensor, y: torch.Tensor, trial: Trial, task: Task) -> Score:
    """How the model does on the rows of a trial: its score and the mean loss; with other measures if they are asked for."""
    rows, spread = trial.rows, spread_tensor(task)
    correct = total = 0
    loss = 0.0
    measuring = Measuring(task) if needs_measures(task, trial) else None
    with torch.no_grad():
        for a in range(0, len(rows), EVALUATION_BATCH):
            batch = torch.from_numpy(rows[a : a + EVALUATION_BATCH])
            labels = y[batch]
            outputs = functional_call(module, params, (x[batch],))
            right, possible = sample_counts(outputs, labels, spread)
            correct, total = correct + int(right.sum()), total + int(possible.sum())
            if task.loss is None:
                loss += float(sample_losses(outputs, labels).sum())
            else:  # one value for each sample, or one for all of them
                loss += float(task.loss.compute(outputs, labels).mean()) * len(batch)
            if measuring is not None:
                measure_batch(measuring, outputs, labels)
    result = Score(correct, total, loss / max(len(rows), 1))
    return result if measuring is None else measuring.finish(result)


def tensors(tree: Tree) -> Tensors:
    """A private copy of a tree as tensors."""
    return {n: torch.from_numpy(np.array(v)) for n, v in tree.items()}
