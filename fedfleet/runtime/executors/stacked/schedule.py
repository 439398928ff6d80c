"""Putting jobs into stacks: like passes together, long ones first, padded only where they must be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedfleet.core.parts import Job, LocalPass
from fedfleet.core.records import Ints
from fedfleet.core.rng import orders


@dataclass(frozen=True, slots=True)
class Stacked:
    """Jobs that train together, most steps first, with the rows of every step.

    rows[t, c, b] is the dataset row of sample b of client c at step t; sizes[t, c] how many of them are real (0: this client
    has finished); active[t] how many clients still train, a prefix.
    """

    jobs: tuple[Job, ...]
    order: tuple[int, ...]  # where each job stood in the input
    rows: Ints
    sizes: Ints
    active: tuple[int, ...]

    @property
    def padding(self) -> float:
        """The share of computed samples that are padding."""
        width = self.rows.shape[2]
        done = sum(a * width for a in self.active)
        return 1.0 - float(self.sizes.sum()) / done if done else 0.0


def groups(jobs: Sequence[Job]) -> Iterator[tuple[LocalPass, list[int]]]:
    """Jobs with the same local pass, as places in the input, in the order in which the passes first appear."""
    found: dict[int, tuple[LocalPass, list[int]]] = {}
    for i, job in enumerate(jobs):
        assert isinstance(job.local, LocalPass)
        found.setdefault(id(job.local), (job.local, []))[1].append(i)
    yield from found.values()


def plan_stack(jobs: Sequence[Job], places: Sequence[int], local: LocalPass) -> Stacked:
    """One stack of jobs: their batches laid out by step, the same batches as `inline.batches` walks through."""
    plan = local.batches
    mine = [jobs[i] for i in places]
    n = np.array([len(job.rows) for job in mine], np.int64)
    per_epoch = -(-n // plan.size)
    limit = np.array([job.steps or plan.steps or 0 for job in mine], np.int64)
    length = np.where(n == 0, 0, np.where(limit > 0, limit, plan.epochs * per_epoch))
    by_length = np.argsort(-length, kind="stable")
    steps, width = int(length.max(initial=0)), int(np.minimum(n, plan.size).max(initial=1))
    rows = np.zeros((steps, len(mine), max(width, 1)), np.int64)
    sizes = np.zeros((steps, len(mine)), np.int64)
    place = np.empty(len(mine), np.int64)
    place[by_length] = np.arange(len(mine))
    for size in np.unique(n[n > 0]).tolist():
        same = np.flatnonzero(n == size)
        _fill(rows, sizes, [mine[i] for i in same.tolist()], place[same], length[same], plan.size)
    active = tuple(int((sizes[t] > 0).sum()) for t in range(steps))
    order = by_length.tolist()
    return Stacked(tuple(mine[j] for j in order), tuple(places[j] for j in order), rows, sizes, active)


def _fill(rows: Ints, sizes: Ints, jobs: list[Job], place: Ints, length: Ints, size: int) -> None:
    """Lay out clients with equally large shards; padding repeats a real sample, so that it is never strange."""
    n = len(jobs[0].rows)
    per_epoch, width = -(-n // size), min(n, size)
    keys, tasks = np.array([j.key for j in jobs], np.uint64), np.array([j.task for j in jobs], np.int64)
    own = np.stack([j.rows for j in jobs])
    for epoch in range(-(-int(length.max()) // per_epoch)):
        shuffled = np.take_along_axis(own, orders(jobs[0].seed, keys, tasks, epoch, n), axis=1)
        for k in range(per_epoch):
            t = epoch * per_epoch + k
            going = np.flatnonzero(length > t)
            if not len(going):
                return
            batch = shuffled[going, k * size : k * size + width]
            at = place[going]
            rows[t, at] = batch[:, :1]
            rows[t, at, : batch.shape[1]] = batch
            sizes[t, at] = batch.shape[1]


def chunks(jobs: Sequence[Job], places: Sequence[int], most: int) -> Iterator[list[int]]:
    """Places cut into stacks of at most `most` clients, those with like amounts of work together."""
    by_size = sorted(places, key=lambda i: (-len(jobs[i].rows), i))
    for a in range(0, len(by_size), most):
        yield by_size[a : a + most]
