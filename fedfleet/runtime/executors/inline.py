"""The literal executor: one client after the other, one step after the other. The reference for all others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np
import torch
from torch.func import functional_call

from fedfleet.core.edges import NestedPass
from fedfleet.core.errors import RunFailed
from fedfleet.core.parts import BatchPlan, Executor, Job, LocalPass, Task, Trial
from fedfleet.core.records import Ints, Report, Score
from fedfleet.core.rng import orders
from fedfleet.core.trees import Tree, difference
from fedfleet.tasks.dropout import addresses, dropout_names

EVALUATION_BATCH = 2048
Tensors = dict[str, torch.Tensor]


def inline(task: Task, *, threads: int = 1) -> Executor:
    """An executor in this process, bitwise repeatable: fixed threads, deterministic kernels."""
    torch.set_num_threads(threads)
    torch.set_deterministic_debug_mode("error")  # deterministic kernels; this spelling does not load the compiler
    module = task.build()
    x = torch.from_numpy(task.dataset.x)
    y = torch.from_numpy(task.dataset.y)

    def train(jobs: Sequence[Job]) -> Iterator[Report]:
        module.train()
        for job in jobs:
            try:
                if isinstance(job.local, LocalPass):
                    yield train_one(module, job, job.local, x, y)
                elif isinstance(job.local, NestedPass):
                    raise ValueError("it is an edge, and needs the nested executor")
                else:
                    yield job.local(job, task.dataset)
            except (RuntimeError, ValueError, IndexError) as wrong:
                raise RunFailed(f"client {job.client}, task {job.task}: local training failed: {wrong}") from wrong

    def evaluate(trials: Sequence[Trial]) -> Iterable[Score]:
        module.eval()
        loaded: tuple[int, Tensors] | None = None
        for trial in trials:
            if loaded is None or loaded[0] != id(trial.params):
                loaded = (id(trial.params), tensors(trial.params))
            yield score(module, loaded[1], x, y, trial.rows)

    return Executor("inline", train, evaluate)


def train_one(module: Any, job: Job, local: LocalPass, x: torch.Tensor, y: torch.Tensor) -> Report:
    """One client's pass: from what was offered (and kept at home) to a delta, statistics and new memory."""
    if not len(job.rows):
        raise ValueError("its training shard is empty")
    keep = local.keep or (lambda name: False)
    memory = job.memory or {}
    start = {n: memory[n] if keep(n) and n in memory else v for n, v in job.offered.items()}
    state = tensors(start)
    names = [n for n, _ in module.named_parameters() if local.train is None or local.train(n)]
    params: Tensors = {n: state.pop(n) for n in names}
    fixed = dict(params)
    remembered = tensors({n: v for n, v in memory.items() if not keep(n)})
    optimiser = local.optimiser.init(params)
    loss_sum, seen, steps = 0.0, 0, 0
    dropouts = dropout_names(module)
    for rows in batches(local.batches, job):
        batch = torch.from_numpy(rows)
        if dropouts:
            place = addresses(job.seed, np.array([job.key], np.uint64), np.array([job.task]), steps)
            state |= dict.fromkeys(dropouts, torch.from_numpy(place))
        for p in params.values():
            p.requires_grad_(True)
        logits = functional_call(module, {**params, **state}, (x[batch],))
        loss = torch.nn.functional.cross_entropy(logits, y[batch])
        found = torch.autograd.grad(loss, list(params.values()), allow_unused=True)
        with torch.no_grad():
            grads: Tensors = {
                n: torch.zeros_like(p) if g is None else g for (n, p), g in zip(params.items(), found, strict=True)
            }
            for term in local.terms:
                extra = term(params, fixed, remembered)
                grads = {n: g + extra[n] if n in extra else g for n, g in grads.items()}
            params, optimiser = local.optimiser.update(params, grads, optimiser)
        loss_sum += float(loss.detach()) * len(rows)
        seen += len(rows)
        steps += 1
    after = {n: v.detach().numpy() for n, v in {**state, **params}.items() if n in job.offered}
    update = difference({n: after[n] for n in job.offered if not keep(n)}, job.offered)
    kept = {n: after[n].copy() for n in job.offered if keep(n)} if local.keep else None
    weight = float(len(job.rows)) if local.weigh == "samples" else 1.0
    stats = {"loss": loss_sum / max(seen, 1), "samples": float(len(job.rows)), "steps": float(steps)}
    return Report(job.task, job.client, update, weight, stats, kept)


def batches(plan: BatchPlan, job: Job) -> Iterator[Ints]:
    """The rows of each step: a fresh order in every epoch, addressed by client and task."""
    n = len(job.rows)
    if n == 0:
        return
    key, task = np.array([job.key], np.uint64), np.array([job.task])
    limit = job.steps or plan.steps
    done = 0
    for epoch in count():
        order = orders(job.seed, key, task, epoch, n)[0]
        for a in range(0, n, plan.size):
            if limit is not None and done == limit:
                return
            yield job.rows[order[a : a + plan.size]]
            done += 1
        if limit is None and done >= plan.epochs * -(-n // plan.size):
            return


def score(module: Any, params: Tensors, x: torch.Tensor, y: torch.Tensor, rows: Ints) -> Score:
    """Correct answers, number of samples and mean loss on these rows."""
    correct, loss = 0, 0.0
    with torch.no_grad():
        for a in range(0, len(rows), EVALUATION_BATCH):
            batch = torch.from_numpy(rows[a : a + EVALUATION_BATCH])
            logits = functional_call(module, params, (x[batch],))
            correct += int((logits.argmax(1) == y[batch]).sum())
            loss += float(torch.nn.functional.cross_entropy(logits, y[batch], reduction="sum"))
    return Score(correct, len(rows), loss / max(len(rows), 1))


def tensors(tree: Tree) -> Tensors:
    """A private copy of a tree as tensors."""
    return {n: torch.from_numpy(np.array(v)) for n, v in tree.items()}
