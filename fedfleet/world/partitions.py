"""Partitions: which client holds which sample. Each gives every row a client; `hold` makes shards of that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.kinds import IGNORED
from fedfleet.core.limits import Count, Fraction, Positive
from fedfleet.core.memory_limit import check_memory
from fedfleet.core.parts import Dataset, Task
from fedfleet.core.records import Ints, Keys
from fedfleet.core.rng import attackers, stream
from fedfleet.core.sources import DataSource, Split
from fedfleet.core.strata import strata
from fedfleet.core.trees import Array

# (dataset, rows, clients, generator) -> the client of each row
PartitionRecipe = Callable[[Dataset, Ints, int, np.random.Generator], Ints]


def iid() -> PartitionRecipe:
    """Rows dealt at random: all clients have the same mixture of classes, and their numbers of rows differ by one at most."""

    def deal(_dataset: Dataset, rows: Ints, clients: int, rng: np.random.Generator) -> Ints:
        return rng.permutation(np.arange(len(rows)) % clients)

    return deal


def dirichlet(alpha: Positive = 0.5) -> PartitionRecipe:
    """Each class is shared out by its own Dirichlet(alpha) draw over the clients: with a small alpha clients differ much.

    The numbers of a regression are shared out by ten bins of equal size, samples with several labels by their rarest one.
    """

    def deal(dataset: Dataset, rows: Ints, clients: int, rng: np.random.Generator) -> Ints:
        groups = strata(dataset, "world.data: dirichlet")
        labels, owner = groups.of[rows], np.empty(len(rows), np.int64)
        for label in range(groups.count):
            class_rows = rng.permutation(np.flatnonzero(labels == label))
            weights = rng.standard_gamma(alpha, clients)
            if not weights.any():  # tiny alphas can underflow every draw to zero; then one client takes the class
                weights[rng.integers(clients)] = 1.0
            cuts = np.floor(np.cumsum(weights) / weights.sum() * len(class_rows) + 0.5).astype(np.int64)
            owner[class_rows] = np.searchsorted(cuts[:-1], np.arange(len(class_rows)), side="right")
        return owner

    return deal


def quantity(alpha: Positive = 1.0) -> PartitionRecipe:
    """Clients have unlike amounts of alike data: their shares of all rows are one Dirichlet(alpha) draw.

    It asks nothing of the labels, and so deals sequences and numbers too.
    """

    def deal(_dataset: Dataset, rows: Ints, clients: int, rng: np.random.Generator) -> Ints:
        shares = rng.standard_gamma(alpha, clients)
        cuts = np.floor(np.cumsum(shares) / max(shares.sum(), np.finfo(float).tiny) * len(rows) + 0.5).astype(np.int64)
        return np.searchsorted(cuts[:-1], rng.permutation(len(rows)), side="right").astype(np.int64)

    return deal


def by_label(labels: Count = 2) -> PartitionRecipe:
    """Rows sorted by label are cut into clients x labels blocks, and each client is dealt `labels` of them.

    The numbers of a regression are sorted by ten bins, samples with several labels by their rarest one.
    """

    def deal(dataset: Dataset, rows: Ints, clients: int, rng: np.random.Generator) -> Ints:
        blocks = clients * labels
        check_memory(24 * blocks, f"world.data: {labels} labels for each of {clients} clients", "lower one of the two")
        order = np.lexsort((rng.random(len(rows)), strata(dataset, "world.data: by_label").of[rows]))
        holder = rng.permutation(np.arange(blocks) % clients)
        owner = np.empty(len(rows), np.int64)
        owner[order] = holder[np.arange(len(rows)) * blocks // len(rows)]
        return owner

    return deal


@dataclass(frozen=True, slots=True)
class OwnerPartition:
    """The partition by people; whether people may share a client, and whether the samples of one may be divided, is only said
    here: `app.assemble` refuses other numbers of clients than people without it."""

    merge_owners: bool = False
    split_owners: bool = False

    def __call__(self, dataset: Dataset, rows: Ints, clients: int, rng: np.random.Generator) -> Ints:
        """The client of each row."""
        people, person_of_row = people_of(dataset, rows)
        if clients <= len(people):
            return rng.permutation(np.arange(len(people)) % clients)[person_of_row]
        counts = np.bincount(person_of_row).astype(np.float64)
        parts = np.ones(len(people), np.int64)
        for _ in range(clients - len(people)):
            parts[np.argmax(counts / parts)] += 1
        first = np.concatenate([[0], np.cumsum(parts)[:-1]])
        turn = np.empty(len(rows), np.int64)
        for person in range(len(people)):
            own_rows = rng.permutation(np.flatnonzero(person_of_row == person))
            turn[own_rows] = np.arange(len(own_rows)) % parts[person]
        return first[person_of_row] + turn


def by_owner(*, merge_owners: bool = False, split_owners: bool = False) -> PartitionRecipe:
    """The people who made the samples are the clients, as many as there are people.

    With `merge_owners` there may be fewer clients: people are dealt to clients in turn, each with all samples. With `split_owners`
    there may be more: the samples of those who have most per client are divided.
    """
    return OwnerPartition(merge_owners, split_owners)


def people_of(dataset: Dataset, rows: Ints) -> tuple[Ints, Ints]:
    """The people who made these rows, and for each row which of them."""
    if dataset.owner is None:
        raise BadInput(
            "world.data: by_owner needs to know who made each sample, and this dataset does not say; "
            "use dirichlet, or give data of your own with the owner of each sample"
        )
    people, person_of_row = np.unique(dataset.owner[rows], return_inverse=True)
    return people, person_of_row


def owner_partition(deal: PartitionRecipe) -> OwnerPartition | None:
    """The partition by people, alone or inside another one; None if nothing is dealt by people."""
    while isinstance(deal, PoisonedPartition):
        deal = deal.inside
    return deal if isinstance(deal, OwnerPartition) else None


def make_shards(
    deal: PartitionRecipe, task: Task, keys: Keys, seed: int, *, split: tuple[int, int, int] = (6, 2, 2), min_samples: int = 5
) -> DataSource:
    """Deal what is not held out to clients, see that each has `min_samples`, and split each shard: train, valid, test."""
    n, dataset = len(keys), task.dataset
    rows = task.client_rows()
    if n * min_samples > len(rows):
        of = "" if owner_partition(deal) is None else f" of {len(people_of(dataset, rows)[0])} people"
        raise BadInput(
            f"world.clients: {n} clients{of} with at least {min_samples} samples each need {n * min_samples} samples, "
            f"but the dataset leaves {len(rows)}; use fewer clients or a smaller world.min_samples"
        )
    rng = stream(seed, "partition")
    owner = _ensure_minimum(deal(dataset, rows, n, rng), n, min_samples, rng)
    # Dealt by the order of keys, so that a renamed client takes its shard along.
    client = np.argsort(keys, kind="stable")[owner]
    flat = rows[np.lexsort((rng.random(len(rows)), client))]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(client, minlength=n))])
    size = np.diff(offsets)
    valid = np.floor(size * (split[1] / sum(split)) + 0.5).astype(np.int64)
    test = np.floor(size * (split[2] / sum(split)) + 0.5).astype(np.int64)
    train = np.maximum(size - valid - test, np.minimum(size, 1))
    cuts = np.stack(
        [offsets[:-1], offsets[:-1] + train, np.minimum(offsets[:-1] + train + valid, offsets[1:]), offsets[1:]], axis=1
    )
    place = {"train": 0, "valid": 1, "test": 2}

    def shard(client: int, split: Split, _round: int) -> Ints:
        k = place[split]
        return flat[cuts[client, k] : cuts[client, k + 1]]

    return DataSource(shard, lambda round: train, np.flatnonzero(cuts[:, 3] > cuts[:, 2]), task.holdout, task.unseen)


def _ensure_minimum(owner: Ints, clients: int, least: int, rng: np.random.Generator) -> Ints:
    """Move rows from the richest clients to those with fewer than `least`."""
    counts = np.bincount(owner, minlength=clients)
    if counts.min() >= least:
        return owner
    owner = owner.copy()
    held = [list(rng.permutation(np.flatnonzero(owner == c))) for c in range(clients)]
    for poor in np.flatnonzero(counts < least):
        while counts[poor] < least:
            rich = int(np.argmax(counts))
            owner[held[rich].pop()] = poor
            counts[rich] -= 1
            counts[poor] += 1
    return owner


# ---- poisoned data: attackers who train honestly on wrong labels --------------------------------------------------


@dataclass(frozen=True, slots=True)
class PoisonedPartition:
    """A partition some of whose holders have wrong labels; it deals as the partition inside does."""

    inside: PartitionRecipe
    share: float

    def __call__(self, dataset: Dataset, rows: Ints, clients: int, rng: np.random.Generator) -> Ints:
        """The client of each row."""
        return self.inside(dataset, rows, clients, rng)


def label_flip(of: PartitionRecipe, share: Fraction = 0.2) -> PartitionRecipe:
    """A share of the clients trains on flipped labels, class c becoming the last but c (see
    `flipped`); who holds what is dealt by `of`.

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
        labels[rows] = flipped(task.dataset, rows)
    return replace(task, dataset=replace(task.dataset, y=labels))


def flipped(dataset: Dataset, rows: Ints) -> Array:
    """The wrong labels of these rows: class c becomes the last but c, a number its mirror image about the mean of all, and of
    several labels a sample has those that it had not."""
    labels = dataset.y[rows]
    if labels.dtype.kind == "f":
        return (2 * dataset.y.mean(0) - labels).astype(np.float32)
    if labels.dtype.kind == "b":
        return ~labels
    return np.where(labels == IGNORED, IGNORED, dataset.classes - 1 - labels)
