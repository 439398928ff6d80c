"""Users: whose device is whose, and how a user's samples lie on the devices at first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedfleet.core.edges import UserSource
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Count, Fraction, Positive
from fedfleet.core.records import Ints
from fedfleet.core.rng import stream
from fedfleet.core.sources import DataSource, Split


@dataclass(frozen=True, slots=True)
class UserRecipe:
    """How devices are given to users, and how a user's samples are spread: (devices, seed) and Dirichlet(mu) per class."""

    assign: Callable[[int, int], UserSource]
    mu: float


def households(
    devices: list[Count] = [2, 5],  # noqa: B006 - only read
    *,
    mu: Positive = 0.5,
    loners: Fraction = 0.0,
) -> UserRecipe:
    """Users with between `devices[0]` and `devices[1]` devices each, drawn evenly; ShuffleFL's setting.

    `loners` is the share of all devices whose user has no other device. Inside a user every
    class is shared out by a Dirichlet(mu) draw over the devices.
    """
    if len(devices) != 2 or devices[0] > devices[1]:
        raise BadInput(
            f"world.users.devices = {devices}: give the smallest and the largest number of devices of a user, for example [2, 5]"
        )

    def assign(n: int, seed: int) -> UserSource:
        rng = stream(seed, "users")
        alone = round(loners * n)
        sizes: list[int] = [1] * alone
        left = n - alone
        while left:
            sizes.append(min(left, int(rng.integers(devices[0], devices[1] + 1))))
            left -= sizes[-1]
        return UserSource(np.repeat(np.arange(len(sizes)), rng.permutation(sizes)))

    return UserRecipe(assign, mu)


def groups(count: Count = 10, *, mu: Positive = 0.5) -> UserRecipe:
    """A given number of groups of about equal size, for example the factories of FedGS or the edges of HierFL."""

    def assign(n: int, _seed: int) -> UserSource:
        if count > n:
            raise BadInput(f"world.users.count: {count} groups are more than the {n} devices of world.clients; give fewer groups")
        return UserSource(np.sort(np.arange(n) % count))

    return UserRecipe(assign, mu)


def spread_inside(users: UserSource, data: DataSource, labels: Ints, mu: float, seed: int) -> list[dict[str, Ints]]:
    """For each user and split, which device (0, 1, ..) has each row: Dirichlet(mu) per class, a training row for every device."""
    result: list[dict[str, Ints]] = []
    for user in range(len(users)):
        rng = stream(seed, "inside", user)
        n = len(users.devices_of(user))
        weights = rng.dirichlet(np.full(n, mu), int(labels.max()) + 1)
        splits: tuple[Split, ...] = ("train", "valid", "test")
        slots = {split: _deal(labels[data.shard(user, split, 0)], weights, rng) for split in splits}
        _fill_empty_devices(slots["train"], n, rng)
        result.append(slots)
    return result


def _deal(labels: Ints, weights: np.ndarray, rng: np.random.Generator) -> Ints:
    slots = np.empty(len(labels), np.int64)
    for label in np.unique(labels).tolist():
        class_rows = rng.permutation(np.flatnonzero(labels == label))
        cuts = np.floor(np.cumsum(weights[label]) * len(class_rows) + 0.5)[:-1]
        slots[class_rows] = np.searchsorted(cuts, np.arange(len(class_rows)), side="right")
    return slots


def _fill_empty_devices(slots: Ints, n: int, rng: np.random.Generator) -> None:
    """Move single rows from the fullest device to empty ones, as far as the rows go."""
    for empty in np.flatnonzero(np.bincount(slots, minlength=n) == 0).tolist():
        counts = np.bincount(slots, minlength=n)
        fullest = int(np.argmax(counts))
        if counts[fullest] < 2:
            return
        slots[rng.choice(np.flatnonzero(slots == fullest))] = empty


def on_devices(users: UserSource, data: DataSource, slots: list[dict[str, Ints]]) -> DataSource:
    """The users' data as the devices' own: what flat methods see of the same fleet."""
    place = np.empty(len(users.user_of), np.int64)
    for user in range(len(users)):
        place[users.devices_of(user)] = np.arange(int((users.user_of == user).sum()))

    def shard(device: int, split: Split, round: int) -> Ints:
        user = int(users.user_of[device])
        return data.shard(user, split, round)[slots[user][split] == place[device]]

    n = len(users.user_of)
    sizes = np.array([len(shard(d, "train", 0)) for d in range(n)], np.int64)
    testers = np.array([d for d in range(n) if len(shard(d, "test", 0))], np.int64)
    return DataSource(shard, lambda round: sizes, testers, data.holdout, data.unseen)
