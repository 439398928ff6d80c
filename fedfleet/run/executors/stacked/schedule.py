"""Putting jobs into stacks: like passes together, long ones first, padded only where they must be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedfleet.core.parts import BatchPlan, Job, LocalPass
from fedfleet.core.records import Ints
from fedfleet.core.rng import stream


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
    """One stack of jobs: their batches laid out by step."""
    walks = [_walk(local.batches, jobs[i]) for i in places]
    by_length = sorted(range(len(places)), key=lambda j: (-len(walks[j][1]), j))
    steps = len(walks[by_length[0]][1]) if by_length else 0
    width = max((w[0].shape[1] for w in walks), default=1)
    rows = np.zeros((steps, len(places), width), np.int64)
    sizes = np.zeros((steps, len(places)), np.int64)
    for c, j in enumerate(by_length):
        own, filled = walks[j]
        rows[: len(own), c, : own.shape[1]] = own
        sizes[: len(own), c] = filled
        if own.shape[1] < width:
            rows[: len(own), c, own.shape[1] :] = own[:, :1]
    active = tuple(int((sizes[t] > 0).sum()) for t in range(steps))
    return Stacked(tuple(jobs[places[j]] for j in by_length), tuple(places[j] for j in by_length), rows, sizes, active)


def _walk(plan: BatchPlan, job: Job) -> tuple[Ints, Ints]:
    """The rows of each step, [steps, width], and how many are real; padding repeats a real sample, so it is never strange.

    The same order as `inline.batches`: a fresh permutation for every epoch from the one stream of this job.
    """
    n, size = len(job.rows), plan.size
    if n == 0:
        return np.zeros((0, 1), np.int64), np.zeros(0, np.int64)
    per_epoch = -(-n // size)
    limit = job.steps or plan.steps
    steps = limit if limit is not None else plan.epochs * per_epoch
    rng = stream(job.seed, "batches", job.key, job.task)
    width = min(n, size)
    rows = np.empty((-(-steps // per_epoch), per_epoch, width), np.int64)
    filled = np.full(per_epoch, width, np.int64)
    filled[-1] = n - (per_epoch - 1) * size
    for epoch in rows:
        order = job.rows[rng.permutation(n)]
        whole = (per_epoch - 1) * size
        epoch[:-1] = order[:whole].reshape(-1, width) if per_epoch > 1 else epoch[:-1]
        epoch[-1] = order[whole]
        epoch[-1, : n - whole] = order[whole:]
    return rows.reshape(-1, width)[:steps], np.tile(filled, len(rows))[:steps]


def chunks(jobs: Sequence[Job], places: Sequence[int], most: int) -> Iterator[list[int]]:
    """Places cut into stacks of at most `most` clients, those with like amounts of work together."""
    by_size = sorted(places, key=lambda i: (-len(jobs[i].rows), i))
    for a in range(0, len(by_size), most):
        yield by_size[a : a + most]
