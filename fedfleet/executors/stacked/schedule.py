"""Putting jobs into stacks: like amounts of work together, long ones first, padded only where they must be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedfleet.core.memory_limit import check_memory
from fedfleet.core.parts import Job
from fedfleet.core.passes import BatchPlan, LocalPass
from fedfleet.core.records import Ints
from fedfleet.core.rng import Seeds, orders
from fedfleet.executors.client_half import STAGE_STRIDE, PreparedJob


@dataclass(frozen=True, slots=True)
class Schedule:
    """One stage of a stack, most steps first, with the rows of every step.

    rows[t, c, b] is the dataset row of sample b of client c at step t; sizes[t, c] how many of them are real (0: this client
    has finished); active[t] how many clients still train, a prefix. `order` says which of the group stands at each place.
    """

    jobs: tuple[Job, ...]
    order: Ints
    rows: Ints
    sizes: Ints
    active: tuple[int, ...]
    stage: int = 0

    @property
    def padding(self) -> float:
        """The share of computed samples that are padding."""
        total = self.sample_slots
        return 1.0 - float(self.sizes.sum()) / total if total else 0.0

    @property
    def sample_slots(self) -> int:
        """Samples that go through the stack, padding included."""
        return sum(self.active) * self.rows.shape[2]

    @property
    def sorted_already(self) -> bool:
        """Does the group stand in this order anyway?"""
        return bool((self.order == np.arange(len(self.order))).all())


def step_counts(plan: BatchPlan, jobs: Sequence[Job]) -> Ints:
    """How many steps each job takes."""
    n = np.array([len(job.rows) for job in jobs], np.int64)
    limit = np.array([job.steps or plan.steps or 0 for job in jobs], np.int64)
    return np.where(n == 0, 0, np.where(limit > 0, limit, plan.epochs * -(-n // plan.size)))


def batch_width(plan: BatchPlan, jobs: Sequence[Job]) -> int:
    """How wide the batches of a stack of these jobs are, padding included."""
    return max(1, max((min(len(job.rows), plan.size) for job in jobs), default=1))


def sample_counts(jobs: Sequence[Job], local: LocalPass) -> tuple[int, int]:
    """Samples that go through all stages of a stack of these jobs, with padding and without."""
    computed = real = 0
    n = np.array([len(job.rows) for job in jobs], np.int64)
    for plan in (stage.batches for stage in local.work()):
        steps, epoch = step_counts(plan, jobs), -(-n // plan.size)
        computed += int(steps.sum()) * batch_width(plan, jobs)
        real += int((steps // epoch * n + np.minimum(steps % epoch * plan.size, n)).sum())
    return computed, real


def plan_stage(jobs: Sequence[Job], plan: BatchPlan, stage: int = 0) -> Schedule:
    """The batches of a stack laid out by step, the same batches as `inline.batches` walks through."""
    n = np.array([len(job.rows) for job in jobs], np.int64)
    length = step_counts(plan, jobs)
    order = np.argsort(-length, kind="stable")
    steps, width = int(length.max(initial=0)), batch_width(plan, jobs)
    check_memory(
        8.0 * steps * len(jobs) * width,
        f"a stack of {len(jobs)} clients with {steps:,} steps each",
        'take fewer epochs or steps, or run.execute = "inline"',
    )
    rows = np.zeros((steps, len(jobs), width), np.int64)
    sizes = np.zeros((steps, len(jobs)), np.int64)
    place = np.empty(len(jobs), np.int64)
    place[order] = np.arange(len(jobs))
    for size in np.unique(n[n > 0]).tolist():
        same = np.flatnonzero(n == size)
        _fill(rows, sizes, [jobs[i] for i in same.tolist()], place[same], length[same], plan.size, stage)
    active = tuple(int((sizes[t] > 0).sum()) for t in range(steps))
    return Schedule(tuple(jobs[j] for j in order.tolist()), order, rows, sizes, active, stage)


def _fill(rows: Ints, sizes: Ints, jobs: list[Job], place: Ints, length: Ints, size: int, stage: int) -> None:
    """Lay out clients with equally large shards; padding repeats a real sample, so that it is never strange."""
    n = len(jobs[0].rows)
    per_epoch, width = -(-n // size), min(n, size)
    keys, tasks = np.array([j.key for j in jobs], np.uint64), np.array([j.task for j in jobs], np.int64)
    shard_rows, seeds = np.stack([j.rows for j in jobs]), seeds_of(jobs)
    for epoch in range(-(-int(length.max()) // per_epoch)):
        epoch_orders = orders(seeds, keys, tasks, epoch + STAGE_STRIDE * stage, n)
        shuffled = np.take_along_axis(shard_rows, epoch_orders, axis=1)
        for k in range(per_epoch):
            t = epoch * per_epoch + k
            active = np.flatnonzero(length > t)
            if not len(active):
                return
            batch = shuffled[active, k * size : k * size + width]
            positions = place[active]
            rows[t, positions] = batch[:, :1]
            rows[t, positions, : batch.shape[1]] = batch
            sizes[t, positions] = batch.shape[1]


def seeds_of(jobs: Sequence[Job]) -> Seeds:
    """The seed of all these jobs; one for each where they come from several runs."""
    first = jobs[0].seed
    return first if all(job.seed == first for job in jobs) else [job.seed for job in jobs]


def chunks(group: Sequence[PreparedJob], places: Sequence[int], most: int) -> Iterator[list[int]]:
    """Places cut into stacks of at most `most` clients, those with like amounts of work together and long ones first."""
    local = group[places[0]].local
    work = step_counts(local.batches, [group[i].job for i in places])
    by_size = [i for _, _, i in sorted((-int(w), -len(group[i].job.rows), i) for w, i in zip(work, places, strict=True))]
    for a in range(0, len(by_size), most):
        yield by_size[a : a + most]
