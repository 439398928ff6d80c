"""How long a device trains: tasks of different size are timed, and their seconds split by what each batch and sample takes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fedfleet.core.parts import Executor, Job, Offer, Task, Trial
from fedfleet.core.passes import BatchPlan, LocalPass
from fedfleet.core.records import Floats, Ints
from fedfleet.learn.optimisers import sgd

_STEPS = (1, 2, 8)  # of the tasks that are timed, each with small batches and with those of the profile
_RATE = 0.01


@dataclass(frozen=True, slots=True)
class TaskTimes:
    """Seconds of a task beside its batches, of each batch beside its samples, and of each sample; `error` is how far the seconds of
    the timed tasks lie from that, as the median of shares."""

    per_task: float
    per_batch: float
    per_sample: float
    error: float


def time_tasks(execute: Executor, task: Task, *, batch: int, rounds: int) -> tuple[Ints, Ints, Floats]:
    """Batches and samples of some tasks, and the fewest seconds of one core that each took in so many rounds of all of them.

    Of one core, not of the clock: what else the machine does meanwhile is not the device's speed. The fewest, because caches that
    others emptied only add to them.
    """
    offer = Offer(task.init(0))
    sizes = sorted({(steps, size) for steps in _STEPS for size in (max(1, batch // 4), batch)})
    rows = np.arange(batch * max(_STEPS)) % len(task.dataset.y)
    jobs = [
        Job(number, 0, 1, 7, offer, LocalPass(sgd(), BatchPlan(size, steps=steps), rate=_RATE), rows, steps)
        for number, (steps, size) in enumerate(sizes)
    ]
    list(execute.train(jobs))  # what is made once, such as buffers
    best = np.full(len(jobs), np.inf)
    for _ in range(rounds):
        for number, job in enumerate(jobs):
            began = time.process_time()
            list(execute.train([job]))
            best[number] = min(best[number], time.process_time() - began)
    batches = np.array([steps for steps, _ in sizes], np.int64)
    return batches, batches * np.array([size for _, size in sizes], np.int64), best


def time_inference(execute: Executor, task: Task, *, iterations: int) -> list[float]:
    """Seconds of each of some inferences of one sample."""
    trial, seconds = Trial(task.init(0), np.zeros(1, np.int64)), list[float]()
    list(execute.evaluate([trial]))
    for _ in range(iterations):
        began = time.process_time()
        list(execute.evaluate([trial]))
        seconds.append(time.process_time() - began)
    return seconds


def fit_times(batches: Sequence[float] | Ints, samples: Sequence[float] | Ints, seconds: Sequence[float] | Floats) -> TaskTimes:
    """What fits these tasks best, none of it negative. Short tasks count as much as long ones: errors are shares.

    >>> fit_times([1, 2, 4, 4], [8, 16, 16, 32], [0.119, 0.138, 0.156, 0.176])
    TaskTimes(per_task=0.1, per_batch=0.009, per_sample=0.00125, error=0.0)
    """
    measured = np.asarray(seconds, np.float64)
    columns = np.stack([np.ones(len(measured)), np.asarray(batches, np.float64), np.asarray(samples, np.float64)], 1)
    shares = columns / measured[:, None]
    best, least = np.zeros(3), np.inf
    for count in (3, 2, 1):
        for used in combinations(range(3), count):
            part = np.linalg.lstsq(shares[:, used], np.ones(len(measured)), rcond=None)[0]
            error = float(np.square(shares[:, used] @ part - 1.0).sum())
            # More terms fit a little better by chance alone; those that are not needed go only if they are negative.
            if (part >= 0).all() and error < least:
                best, least = np.zeros(3), error
                best[list(used)] = part
    apart = float(np.median(np.abs(shares @ best - 1.0)))
    per_task, per_batch, per_sample = (round(float(value), 12) for value in best)
    return TaskTimes(per_task, per_batch, per_sample, round(apart, 12))
