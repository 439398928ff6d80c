"""The work that a transmitter hands out: waves as columns, and which task each client has to do."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedfleet.core.records import Bools, Floats, Ints
from fedfleet.core.trees import Array
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.server.blobs import Blob

_NOBODY = -1


@dataclass(slots=True)
class SentWave:
    """A wave at a transmitter: the message, its columns, which of its tasks are still wanted, and how many."""

    about: inside.Wave
    clients: Array
    steps: Ints | None
    share: Floats | None
    memory_task: Ints | None
    heaviest: Floats
    blob: Array | None
    settings: list[Floats]
    wanted: Bools
    left: int


class Errand(NamedTuple):
    """One task: a place in a wave."""

    wave: SentWave
    slot: int

    @property
    def task(self) -> int:
        """Its number."""
        return self.wave.about.first + self.slot


class Errands:
    """Which client has to do what. Columns over clients, so that a hundred thousand cost little.

    A client does its newest task first; one that was not done when another came is remembered, and has its turn again.
    """

    def __init__(self, clients: int) -> None:
        self.task_of = np.full(clients, _NOBODY, np.int64)
        self._before: dict[int, list[int]] = {}  # by client: tasks that another was put before, oldest first
        self._waves: dict[int, SentWave] = {}
        self._firsts: list[int] = []

    def add(self, wave: inside.Wave) -> list[int]:
        """Take a wave in; the clients that have something to do now."""
        clients = np.frombuffer(wave.clients, np.uint32)
        own = SentWave(
            wave, clients, _column(wave.steps, np.uint32), _column(wave.share, np.float64),
            _column(wave.memory_task, np.int64), np.frombuffer(wave.heaviest, np.float64), _column(wave.blob, np.uint16),
            [np.frombuffer(c, np.float64) for c in wave.columns], np.ones(len(clients), np.bool_), len(clients),
        )  # fmt: skip
        self._waves[wave.first] = own
        insort(self._firsts, wave.first)
        for client in clients[self.task_of[clients] != _NOBODY].tolist():
            self._before.setdefault(client, []).append(int(self.task_of[client]))
        self.task_of[clients] = np.arange(wave.first, wave.first + len(clients))
        return clients.tolist()

    def __len__(self) -> int:
        """How many waves are remembered."""
        return len(self._waves)

    def of(self, client: int) -> Errand | None:
        """What this client has to do."""
        task = int(self.task_of[client])
        return None if task < 0 else self.find(task)

    def find(self, task: int) -> Errand | None:
        """The task of this number, if it is still wanted."""
        at = bisect_right(self._firsts, task) - 1
        wave = self._waves[self._firsts[at]] if at >= 0 else None
        if wave is None or task >= wave.about.first + len(wave.clients):
            return None
        found = Errand(wave, task - wave.about.first)
        return found if wave.wanted[found.slot] else None

    def end(self, tasks: Iterable[int]) -> None:
        """These tasks are done, or not wanted any more."""
        for task in tasks:
            found = self.find(task)
            if found is None:
                continue
            self._done(int(found.wave.clients[found.slot]), task)
            found.wave.wanted[found.slot] = False
            found.wave.left -= 1
            if not found.wave.left:
                del self._waves[found.wave.about.first]
                self._firsts.remove(found.wave.about.first)

    def _done(self, client: int, task: int) -> None:
        """One task less for this client; whatever was put off for it is next."""
        before = self._before.get(client, [])
        if self.task_of[client] == task:
            self.task_of[client] = before.pop() if before else _NOBODY
        elif task in before:
            before.remove(task)
        if not before:
            self._before.pop(client, None)


def _column(data: bytes, kind: type[np.generic]) -> Array | None:
    return np.frombuffer(data, kind) if data else None


def blob_of(errand: Errand) -> str:
    """The name of the model that a task begins with."""
    wave, slot = errand
    return wave.about.blobs[0 if wave.blob is None else int(wave.blob[slot])]


def work_of(errand: Errand, nonce: bytes, blob: Blob, frozen: Blob | None, held: float, *, inline: bool) -> pb.Work:
    """A task as its device hears of it."""
    wave, slot = errand
    about = wave.about
    work = pb.Work(
        kind=pb.Kind.Name(about.kind), task=errand.task, nonce=nonce, round=about.round, version=about.version,
        model=pb.Blob(name=blob.name, nbytes=blob.nbytes, crc32c=blob.crc32c), inline=inline,
        steps=0 if wave.steps is None else int(wave.steps[slot]), share=1.0 if wave.share is None else float(wave.share[slot]),
        seed=about.seed, lease_seconds=about.lease_seconds,
        memory_task=-1 if wave.memory_task is None else int(wave.memory_task[slot]), held_seconds=held,
    )  # fmt: skip
    for name, column in zip(about.settings, wave.settings, strict=True):
        work.settings[name] = float(column[slot])
    if about.rows:
        work.rows.extend(np.frombuffer(about.rows[slot], np.uint32).tolist())
    if frozen is not None:
        work.frozen.CopyFrom(pb.Blob(name=frozen.name, nbytes=frozen.nbytes, crc32c=frozen.crc32c))
    return work
