"""The layer between device and server: users or edges, what they plan in their turn, and what they know when they do.

An edge is a client whose local half is itself a small plan over its own devices. The plan depends on who holds what and on
how fast devices and links are at that moment, never on the values inside a model: so a turn is planned whole, its time is
known, and only then is anything trained.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedfleet.core.records import Floats, Ints, Keys
from fedfleet.core.trees import Array, Tree

if TYPE_CHECKING:
    from fedfleet.core.parts import Algorithm


MAX_SYNCS = 1024  # averages in one turn at most: they number the devices' tasks
# The setting with which an edge tells a device the number by which it draws its batches: all devices of an average share one.
DRAW_TASK = "draw_task"
# The setting with which an edge asks a device not to train but to give the rows of its task to other devices of the same person.
GIVE_SAMPLES = "give_samples"


@dataclass(frozen=True, slots=True)
class UserSource:
    """Whose device is whose: `user_of[device]`; every device belongs to exactly one user, if only to itself.

    >>> UserSource(np.array([0, 1, 0])).devices_of(0)
    array([0, 2])
    """

    user_of: Ints

    def __len__(self) -> int:
        return int(self.user_of.max()) + 1

    def devices_of(self, user: int) -> Ints:
        """The devices of one user, by ascending number."""
        return np.flatnonzero(self.user_of == user)


@dataclass(frozen=True, slots=True)
class Abilities:
    """What devices can do at some moment: inference seconds per sample, and link speeds to their edge in bits per second.

    `latency` are the seconds that each trip down and up costs beside what it carries, half of them each way; `seconds_per_batch`
    those of a training batch beside its samples. A single number holds for all devices.
    """

    seconds_per_sample: Floats
    up_bps: Floats
    down_bps: Floats
    latency: Floats | float = 0.0
    seconds_per_batch: Floats | float = 0.0

    def latencies(self) -> Floats:
        """The latency of each device."""
        return np.broadcast_to(np.asarray(self.latency, np.float64), self.up_bps.shape)

    def batch_seconds(self) -> Floats:
        """What a batch takes each device beside its samples."""
        return np.broadcast_to(np.asarray(self.seconds_per_batch, np.float64), self.up_bps.shape)


@dataclass(frozen=True, slots=True)
class Visit:
    """An edge's turn before it is planned: which task of which round, who its devices are, what they can do and hold.

    `rows[k]` are the dataset rows on device `devices[k]`; `memory` is what the rule left there the last time.
    """

    edge: int
    task: int
    round: int
    seed: int
    devices: Ints
    keys: Keys
    abilities: Abilities
    rows: tuple[Ints, ...]
    memory: Tree


@dataclass(frozen=True, slots=True)
class Sync:
    """One average of devices at their edge: `slots` (places among the edge's devices) train on `rows[i]` for `steps`
    steps (0: what the algorithm says)."""

    slots: Ints
    rows: tuple[Ints, ...]
    steps: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """What an edge does: where its samples lie from now on, which averages it makes, and what that takes beside training.

    `planning` are the seconds before anything moves; `exchange[k]` those that device k spends on samples before it can train.
    `weight` replaces the devices' own weights at the server. `memory` is for the next turn, `stats` for people.
    """

    rows: tuple[Ints, ...]
    syncs: tuple[Sync, ...]
    planning: float = 0.0
    exchange: Floats | None = None
    weight: float | None = None
    memory: Tree = field(default_factory=dict[str, Array])
    stats: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class EdgeRule:
    """How edges spend their turns. `plan` gets all edges of a wave together, since the server may weigh them against each
    other before they begin. How long an edge's last turn took is in its memory, as "seconds". `moves_samples`: samples may change
    device. `by_labels`: it goes by the labels of samples, so that whoever plans must know them."""

    name: str
    plan: Callable[[Sequence[Visit]], Sequence[Turn]]
    moves_samples: bool = False
    by_labels: bool = False


@dataclass(frozen=True, slots=True)
class EdgeFleet:
    """The devices behind the edges: whose they are, their keys, where each row of an edge's shard lies at first, what devices can
    do at a time, and what links edge and server: up and down in bits per second, and the seconds of a trip.

    `byte_scale` is declared over actual model size, as for the server's own links. `energy_draws(devices, spent, time)` says what
    seconds by stage, spent from that time on, draw from the devices' batteries: sums by name, such as joules (None: unknown).
    """

    users: UserSource
    keys: Keys
    first_slots: Callable[[int], Ints]
    abilities: Callable[[Ints, float, int], Abilities]
    backhaul: Callable[[int, Abilities], tuple[float, float, float]]
    byte_scale: float = 1.0
    energy_draws: Callable[[Ints, Mapping[str, Floats], float], Mapping[str, float]] | None = None


@dataclass(frozen=True, slots=True)
class NestedPass:
    """A client's half that is a plan over its own devices, which follow `algorithm`."""

    algorithm: Algorithm
    rule: EdgeRule
    fleet: EdgeFleet
