"""Poisoned data: attackers who train honestly on wrong labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedfleet.core.limits import Fraction
from fedfleet.core.parts import Dataset, Task
from fedfleet.core.records import Ints, Keys
from fedfleet.core.rng import attackers
from fedfleet.core.sources import DataSource
from fedfleet.world.partitions import PartitionRecipe


@dataclass(frozen=True, slots=True)
class PoisonedPartition:
    """A partition some of whose holders have wrong labels; it deals as the partition inside does."""

    inside: PartitionRecipe
    share: float

    def __call__(self, dataset: Dataset, rows: Ints, clients: int, rng: np.random.Generator) -> Ints:
        """The client of each row."""
        return self.inside(dataset, rows, clients, rng)


def label_flip(of: PartitionRecipe, share: Fraction = 0.2) -> PartitionRecipe:
    """A share of the clients trains on flipped labels, class c becoming the last but c; who holds what is dealt by `of`.

    Biggio et al. 2012. Only training samples are flipped: whatever a model is judged by stays true.
    """
    return PoisonedPartition(of, share)


def poison_task(deal: PartitionRecipe, task: Task, data: DataSource, keys: Keys, seed: int) -> Task:
    """The task with the labels that this partition wants; most partitions want them as they are."""
    if not isinstance(deal, PoisonedPartition):
        return task
    bad: Sequence[int] = np.flatnonzero(attackers(seed, keys, deal.share, len(keys))).tolist()
    labels = task.dataset.y.copy()
    for client in bad:
        rows = data.shard(client, "train", 0)
        labels[rows] = task.dataset.classes - 1 - labels[rows]
    return replace(task, dataset=replace(task.dataset, y=labels))
