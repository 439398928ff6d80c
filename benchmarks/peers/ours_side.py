"""This package's side: the loop that everybody writes, the stacked executor as `bench train` times it, and as a run uses it.

python -m benchmarks.peers.ours_side FOLDER OUT '{"way": "run", "form": "merged", "threads": 2}'
"""

from __future__ import annotations

import copy
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.peers.work import CHECKED, State, Work, intervals, read_work, wait, write_result
from fedfleet.core import aggregation
from fedfleet.core.parts import Algorithm, Dataset, Job, Offer, Task
from fedfleet.core.passes import BatchPlan, LocalPass
from fedfleet.core.records import Context
from fedfleet.core.rng import orders
from fedfleet.core.trees import Tree
from fedfleet.executors.bench import naive_loop
from fedfleet.executors.stacked.cohort import train_cohort
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.executors.stacked.placement import open_place
from fedfleet.learn.optimisers import sgd
from fedfleet.learn.zoo import fedavg

SEED = 7
Round = Callable[[Tree], Tree]  # from a model to the next


def our_task(work: Work, module: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> Task:
    """The work as a task of ours."""
    flat, labels = x.flatten(0, 1).numpy(), y.flatten().numpy()
    first = {n: v.numpy() for n, v in module.state_dict().items()}
    data = Dataset(flat, labels, int(labels.max()) + 1)
    return Task(work.task, data, np.zeros(0, np.int64), lambda: copy.deepcopy(module), lambda seed: first)


def our_jobs(work: Work, local: LocalPass) -> Callable[[Tree], list[Job]]:
    """Jobs for a model. Rows are laid out so that our own shuffling visits them in the order of the file."""
    each = work.steps * work.batch
    keys = 1000 + np.arange(work.cohort, dtype=np.uint64)
    order = orders(SEED, keys, np.arange(work.cohort), 0, each)
    rows = np.argsort(order, axis=1) + each * np.arange(work.cohort)[:, None]

    def jobs(params: Tree) -> list[Job]:
        offer = Offer(params)
        return [Job(i, i, int(keys[i]), SEED, offer, local, rows[i]) for i in range(work.cohort)]

    return jobs


def loop(work: Work, task: Task, asked: dict[str, Any]) -> Round:
    """The literal loop, and a mean."""
    torch.set_num_threads(asked["threads"])
    x = torch.from_numpy(task.dataset.x).to(work.device)
    y = torch.from_numpy(task.dataset.y).to(work.device)
    jobs = our_jobs(work, LocalPass(sgd(), BatchPlan(work.batch, steps=work.steps), rate=work.lr))
    return lambda params: mean(naive_loop(task, jobs(params), x, y, lr=work.lr))


def train(work: Work, task: Task, asked: dict[str, Any]) -> Round:
    """What `bench train` times, and a mean."""
    where = open_place(task, device=work.device, threads=asked["threads"], form=asked["form"], tf32=work.tf32, graphs=True)
    jobs = our_jobs(work, LocalPass(sgd(), BatchPlan(work.batch, steps=work.steps), rate=work.lr))
    return lambda params: mean(train_cohort(where, jobs(params)))


def run(work: Work, task: Task, asked: dict[str, Any]) -> Round:
    """What a run does: the stacked executor, every report checked, the exact mean, the server's step."""
    method: Algorithm = fedavg(lr=work.lr, steps=work.steps, batch=work.batch, weigh="one")
    local = method.local(0, {})
    assert isinstance(local, LocalPass)
    jobs, fold = our_jobs(work, local), method.fold
    executor = stacked_executor(task, device=work.device, threads=asked["threads"], form=asked["form"], tf32=work.tf32)
    contexts = [Context(0, 1.0, client) for client in range(work.cohort)]

    def one(params: Tree) -> Tree:
        server = method.init(params)
        if executor.fold is not None and fold.streams:
            total = executor.fold(jobs(params), contexts, fold, server).accumulator
        else:
            total = aggregation.zero(fold, server)
            for report, context in zip(executor.train(jobs(params)), contexts, strict=True):
                assert aggregation.check_and_add(fold, total, report, context) is None
        result = aggregation.finish(fold, total)
        assert result is not None
        return method.apply(server, result).params

    return one


def mean(ends: list[State]) -> Tree:
    """The mean of the clients' models: at once where launches cost most, one after the other where memory does."""
    found: Tree = {}
    for name, first in ends[0].items():
        if first.is_cuda:
            found[name] = torch.stack([end[name] for end in ends]).mean(0).cpu().numpy()
            continue
        total = first.clone()
        for end in ends[1:]:
            total += end[name]
        found[name] = (total / len(ends)).numpy()
    return found


def main(folder: Path, out: Path, asked: dict[str, Any]) -> None:
    """Rounds of one way, timed one by one."""
    work, module, x, y = read_work(folder)
    task = our_task(work, module, x, y)
    step = {"loop": loop, "train": train, "run": run}[asked["way"]](work, task, asked)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = work.tf32
    models, stamps = [task.init(0)], [time.perf_counter()]
    for _ in range(work.warm + work.rounds):
        models.append(step(models[-1]))
        wait(work.device)
        stamps.append(time.perf_counter())
    checked = {n: torch.from_numpy(v) for n, v in models[CHECKED].items()}
    write_result(out, intervals(stamps, work), checked, ["torch", "numpy"])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
