"""Timing: one cohort by the literal loop and the stacked executor, on the same jobs in one process; and a single model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import torch

from fedfleet.core.decoders import Decoder
from fedfleet.core.parts import Algorithm, Job, Offer, Task
from fedfleet.core.passes import NO_SETTINGS, BatchPlan, LocalPass
from fedfleet.core.records import Context, Report
from fedfleet.executors.client_half import batches
from fedfleet.executors.gather import folds_in_place
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked.cohort import train_cohort
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.executors.stacked.placement import open_place
from fedfleet.learn.optimisers import sgd
from fedfleet.tasks.dropout import AddressedDropout, addresses
from fedfleet.tasks.scores import sample_losses

LR = 0.01


@dataclass(frozen=True, slots=True)
class BenchResult:
    """Seconds of both, how far their models lie apart, and how the stacked one worked.

    `clients_apart` differ by more than 1e-4 of a tensor somewhere: a rectified unit within rounding of zero took the other
    side, which of the two being right only higher precision can tell.
    """

    naive_seconds: float
    stacked_seconds: float
    max_abs_difference: float
    max_rel_difference: float
    clients_apart: int
    form: str
    peak_gpu_mb: float


@dataclass(frozen=True, slots=True)
class Bench:
    """What is timed: a cohort of one task, where and how."""

    task: Task
    cohort: int
    steps: int
    batch: int
    device: str = "cpu"
    threads: int = 1
    tf32: bool = False
    form: str = "merged"
    repeats: int = 5


def naive_loop(task: Task, jobs: Sequence[Job], x: torch.Tensor, y: torch.Tensor, *, lr: float) -> list[dict[str, torch.Tensor]]:
    """The loop that everybody writes: one torch module, its state reloaded for each client, a torch optimiser.

    It gives back the parameters of each client, on the device where the data is.
    """
    module = task.build().to(x.device)
    module.train()
    dropouts = [m for m in module.modules() if isinstance(m, AddressedDropout)]
    start: dict[str, Any] = {n: torch.from_numpy(np.array(v)).to(x.device) for n, v in jobs[0].offer.params.items()}
    models = []
    for job in jobs:
        assert isinstance(job.local, LocalPass)
        module.load_state_dict(start)
        optimiser = torch.optim.SGD(module.parameters(), lr=lr)
        for t, rows in enumerate(batches(job.local.batches, job)):
            for leaf in dropouts:
                place = addresses(job.seed, np.array([job.key], np.uint64), np.array([job.task]), t)
                leaf.address = torch.from_numpy(place).to(x.device)
            batch = torch.from_numpy(rows).to(x.device)
            optimiser.zero_grad()
            sample_losses(module(x[batch]), y[batch]).mean().backward()
            optimiser.step()
        models.append({n: v.detach().clone() for n, v in module.state_dict().items()})
    return models


def compare(bench: Bench) -> BenchResult:
    """Time plain SGD both ways; the literal loop runs on one thread, as it would in anybody's script."""
    task, device = bench.task, bench.device
    local = LocalPass(sgd(), BatchPlan(bench.batch, steps=bench.steps), rate=LR)
    offer = Offer(task.init(0))
    jobs = [Job(i, i, 1000 + i, 7, offer, local, rows) for i, rows in enumerate(_shards(bench))]
    place = open_place(task, device=device, threads=bench.threads, form=bench.form, tf32=False, graphs=True)
    torch.set_num_threads(1)
    naive_loop(task, jobs[:2], place.x, place.y, lr=LR)
    naive_seconds, reference = time_work(lambda: naive_loop(task, jobs, place.x, place.y, lr=LR), device, 1)
    torch.backends.cuda.matmul.allow_tf32 = bench.tf32
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
    train_cohort(place, jobs)
    stacked_seconds, ends = time_work(lambda: train_cohort(place, jobs), device, bench.repeats)
    worst, share, odd = _differences(reference, ends)
    return BenchResult(naive_seconds, stacked_seconds, worst, share, odd, place.form, _peak_gpu_mb(device))


def compare_algorithm(bench: Bench, algorithm: Algorithm) -> BenchResult:
    """Time any algorithm's client half: our own inline executor against stacked, reports (on a GPU: sums) included."""
    task, device = bench.task, bench.device
    jobs = algorithm_jobs(bench, algorithm)
    reference: list[Report] = list(inline(task, threads=1).train(jobs[:2]))
    naive_seconds, reference = time_work(lambda: list(inline(task, threads=1).train(jobs)), "cpu", 1)
    execute = stacked_executor(task, device=device, threads=bench.threads, form=bench.form, tf32=bench.tf32)
    ends = list(execute.train(jobs))
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
    work = fold_work(execute, algorithm, task, jobs) or (lambda: list(execute.train(jobs)))
    work()
    stacked_seconds, _ = time_work(work, device, bench.repeats)
    models = [[_model(job, r) for job, r in zip(jobs, cohort_reports, strict=True)] for cohort_reports in (reference, ends)]
    worst, share, odd = _differences(*models)
    return BenchResult(naive_seconds, stacked_seconds, worst, share, odd, execute.name, _peak_gpu_mb(device))


def algorithm_jobs(bench: Bench, algorithm: Algorithm) -> list[Job]:
    """One task for each client of a cohort, with what the algorithm offers and trains; work as the bench says."""
    server = algorithm.init(bench.task.init(0))
    jobs: list[Job] = []
    for i, rows in enumerate(_shards(bench)):
        offer, local = algorithm.offer(server, i, NO_SETTINGS), algorithm.local(i, NO_SETTINGS)
        jobs.append(Job(i, i, 1000 + i, 7, offer, local, rows, bench.steps))
    return jobs


def fold_work(execute: Any, algorithm: Algorithm, task: Task, jobs: Sequence[Job]) -> Callable[[], Any] | None:
    """A round as a run does it where the executor adds up in place; what clients remember goes into the next one."""
    if not folds_in_place(execute, algorithm):
        return None
    decode = algorithm.accept.stack if isinstance(algorithm.accept, Decoder) else None
    server = algorithm.init(task.init(0))
    contexts = [Context(0, 1.0, job.client) for job in jobs]
    memory: dict[int, Any] = {}

    def one_round() -> Any:
        round_jobs = [
            Job(j.task, j.client, j.key, j.seed, j.offer, j.local, j.rows, j.steps, memory.get(j.client, {})) for j in jobs
        ]
        folded = execute.fold(round_jobs, contexts, algorithm.fold, server, decode)
        memory.update(folded.memory)
        return folded

    return one_round


def _model(job: Job, report: Report) -> dict[str, torch.Tensor]:
    return {n: torch.from_numpy(np.asarray(v + job.offer.params.get(n, 0))) for n, v in report.update.items()}


def _shards(bench: Bench) -> list[np.ndarray]:
    """Shards of equal size, with rows of their own as far as the data goes."""
    n, each = len(bench.task.dataset.y), bench.batch * bench.steps
    return [(np.arange(each) + i * each) % n for i in range(bench.cohort)]


def time_work(work: Callable[[], Any], device: str, repeats: int) -> tuple[float, Any]:
    """The median seconds of some repetitions, and what the last one gave."""
    times, result = [], None
    for _ in range(repeats):
        _wait(device)
        start = time.perf_counter()
        result = work()
        _wait(device)
        times.append(time.perf_counter() - start)
    return median(times), result


def _wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def _peak_gpu_mb(device: str) -> float:
    return torch.cuda.max_memory_allocated() / 1e6 if device.startswith("cuda") else 0.0


def _differences(reference: Sequence[Any], ends: Sequence[Any]) -> tuple[float, float, int]:
    """The largest difference, and the largest in units of its tensor's largest value, over all clients and tensors."""
    worst, shares = 0.0, [0.0] * len(reference)
    for c, (a, b) in enumerate(zip(reference, ends, strict=True)):
        for name, value in a.items():
            if not value.is_floating_point():
                continue
            gap = float((value - b[name].to(value.device)).abs().max())
            worst, shares[c] = max(worst, gap), max(shares[c], gap / max(float(value.abs().max()), 1e-12))
    return worst, max(shares, default=0.0), sum(share > 1e-4 for share in shares)
