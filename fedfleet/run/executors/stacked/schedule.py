"""Putting jobs into stacks: like passes together, long ones first, padded only where they must be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedfleet.core.parts import Job, LocalPass
from fedfleet.core.records import Ints
from fedfleet.run.executors.inline import batches


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
    walks = [list(batches(local.batches, jobs[i])) for i in places]
    by_length = sorted(range(len(places)), key=lambda j: (-len(walks[j]), j))
    steps = len(walks[by_length[0]]) if by_length else 0
    width = max((len(rows) for walk in walks for rows in walk), default=1)
    rows = np.zeros((steps, len(places), width), np.int64)
    sizes = np.zeros((steps, len(places)), np.int64)
    for c, j in enumerate(by_length):
        for t, batch in enumerate(walks[j]):
            rows[t, c, : len(batch)] = batch
            rows[t, c, len(batch) :] = batch[0]  # padding repeats a real sample, so that it cannot be strange
            sizes[t, c] = len(batch)
    active = tuple(int((sizes[t] > 0).sum()) for t in range(steps))
    return Stacked(tuple(jobs[places[j]] for j in by_length), tuple(places[j] for j in by_length), rows, sizes, active)


def chunks(jobs: Sequence[Job], places: Sequence[int], most: int) -> Iterator[list[int]]:
    """Places cut into stacks of at most `most` clients, those with like amounts of work together."""
    by_size = sorted(places, key=lambda i: (-len(jobs[i].rows), i))
    for a in range(0, len(by_size), most):
        yield by_size[a : a + most]
