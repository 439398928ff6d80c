"""Timing one cohort: the literal loop against the stacked executor, on the same jobs, in one process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch

from fedfleet.core.parts import BatchPlan, Job, LocalPass, Task
from fedfleet.learn.optimisers import sgd
from fedfleet.runtime.executors.naive import naive_loop
from fedfleet.runtime.executors.stacked.executor import open_place, train_cohort

LR = 0.01


@dataclass(frozen=True, slots=True)
class Compared:
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


def compare(
    task: Task,
    *,
    cohort: int,
    steps: int,
    batch: int,
    device: str,
    threads: int,
    tf32: bool,
    form: str,
    repeats: int = 5,
) -> Compared:
    """Time a cohort both ways; the literal loop runs on one thread, as it would in anybody's script."""
    jobs = cohort_jobs(task, cohort, steps, batch)
    where = open_place(task, device=device, threads=threads, form=form, tf32=False, graphs=True)
    torch.set_num_threads(1)
    naive_loop(task, jobs[:2], where.x, where.y, lr=LR)
    naive_seconds, reference = _timed(lambda: naive_loop(task, jobs, where.x, where.y, lr=LR), device, 1)
    torch.backends.cuda.matmul.allow_tf32 = tf32
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
    train_cohort(where, jobs)
    stacked_seconds, ends = _timed(lambda: train_cohort(where, jobs), device, repeats)
    worst, share, odd = _apart(reference, ends)
    peak = torch.cuda.max_memory_allocated() / 1e6 if device.startswith("cuda") else 0.0
    return Compared(naive_seconds, stacked_seconds, worst, share, odd, where.form, peak)


def cohort_jobs(task: Task, cohort: int, steps: int, batch: int) -> list[Job]:
    """Jobs of equal size, with rows of their own as far as the data goes."""
    local = LocalPass(sgd(LR), BatchPlan(batch, steps=steps))
    params, n = task.init(0), len(task.dataset.y)
    rows = [(np.arange(batch * steps) + i * batch * steps) % n for i in range(cohort)]
    return [Job(i, i, 1000 + i, 7, params, local, rows[i]) for i in range(cohort)]


def _timed(work: Callable[[], object], device: str, repeats: int):
    found, result = [], None
    for _ in range(repeats):
        _wait(device)
        start = time.perf_counter()
        result = work()
        _wait(device)
        found.append(time.perf_counter() - start)
    return median(found), result


def _wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def _apart(reference, ends) -> tuple[float, float, int]:
    """The largest difference, and the largest in units of its tensor's largest value, over all clients and tensors."""
    worst, shares = 0.0, [0.0] * len(reference)
    for c, (a, b) in enumerate(zip(reference, ends, strict=True)):
        for name, value in a.items():
            if not value.is_floating_point():
                continue
            gap = float((value - b[name].to(value.device)).abs().max())
            worst, shares[c] = max(worst, gap), max(shares[c], gap / max(float(value.abs().max()), 1e-12))
    return worst, max(shares, default=0.0), sum(share > 1e-4 for share in shares)
