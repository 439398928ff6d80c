"""The work that a frontend hands out: waves as columns, the task of each client, calls that wait for work, room for models."""

from __future__ import annotations

import asyncio
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fedfleet.core.records import Bools, Floats, Ints
from fedfleet.core.trees import Array
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.process_link import Blob

_NO_TASK = -1
Waiters = dict[int, "asyncio.Future[None]"]  # by client: its call that is held


@dataclass(slots=True)
class SentWave:
    """A wave at a frontend: the message, its columns, which of its tasks are still wanted, and how many."""

    message: inside.Wave
    clients: Array
    steps: Ints | None
    share: Floats | None
    memory_task: Ints | None
    heaviest: Floats
    blob: Array | None
    settings: list[Floats]
    wanted: Bools
    remaining: int


class WorkItem(NamedTuple):
    """One task: a place in a wave."""

    wave: SentWave
    slot: int

    @property
    def task(self) -> int:
        """Its number."""
        return self.wave.message.first + self.slot


class WorkQueue:
    """Which client has to do what. Columns over clients, so that a hundred thousand cost little.

    A client does its newest task first; one that was not done when another came is remembered, and has its turn again.
    """

    def __init__(self, clients: int) -> None:
        self.task_of = np.full(clients, _NO_TASK, np.int64)
        self._deferred: dict[int, list[int]] = {}  # by client: tasks that another was put before, oldest first
        self._waves: dict[int, SentWave] = {}
        self._firsts: list[int] = []

    def add(self, wave: inside.Wave) -> list[int]:
        """Take a wave in; the clients that have something to do now."""
        clients = np.frombuffer(wave.clients, np.uint32)
        sent_wave = SentWave(
            wave, clients, _column(wave.steps, np.uint32), _column(wave.share, np.float64),
            _column(wave.memory_task, np.int64), np.frombuffer(wave.heaviest, np.float64), _column(wave.blob, np.uint16),
            [np.frombuffer(c, np.float64) for c in wave.columns], np.ones(len(clients), np.bool_), len(clients),
        )  # fmt: skip
        self._waves[wave.first] = sent_wave
        insort(self._firsts, wave.first)
        for client in clients[self.task_of[clients] != _NO_TASK].tolist():
            self._deferred.setdefault(client, []).append(int(self.task_of[client]))
        self.task_of[clients] = np.arange(wave.first, wave.first + len(clients))
        return clients.tolist()

    def __len__(self) -> int:
        """How many waves are remembered."""
        return len(self._waves)

    def next_item(self, client: int) -> WorkItem | None:
        """What this client has to do."""
        task = int(self.task_of[client])
        return None if task < 0 else self.find(task)

    def find(self, task: int) -> WorkItem | None:
        """The task of this number, if it is still wanted."""
        at = bisect_right(self._firsts, task) - 1
        wave = self._waves[self._firsts[at]] if at >= 0 else None
        if wave is None or task >= wave.message.first + len(wave.clients):
            return None
        item = WorkItem(wave, task - wave.message.first)
        return item if wave.wanted[item.slot] else None

    def end(self, tasks: Iterable[int]) -> None:
        """These tasks are done, or not wanted any more."""
        for task in tasks:
            item = self.find(task)
            if item is None:
                continue
            self._remove_task(int(item.wave.clients[item.slot]), task)
            item.wave.wanted[item.slot] = False
            item.wave.remaining -= 1
            if not item.wave.remaining:
                del self._waves[item.wave.message.first]
                self._firsts.remove(item.wave.message.first)

    def _remove_task(self, client: int, task: int) -> None:
        """One task less for this client; whatever was put off for it is next."""
        deferred = self._deferred.get(client, [])
        if self.task_of[client] == task:
            self.task_of[client] = deferred.pop() if deferred else _NO_TASK
        elif task in deferred:
            deferred.remove(task)
        if not deferred:
            self._deferred.pop(client, None)


def _column(data: bytes, kind: type[np.generic]) -> Array | None:
    return np.frombuffer(data, kind) if data else None


def blob_name(item: WorkItem) -> str:
    """The name of the model that a task begins with."""
    wave, slot = item
    return wave.message.blobs[0 if wave.blob is None else int(wave.blob[slot])]


def turn_name(item: WorkItem) -> str:
    """The name of the blob with what an edge asks of its devices; "" where the client is no edge."""
    wave, slot = item
    return wave.message.turns[slot] if wave.message.turns else ""


def work_message(
    item: WorkItem,
    nonce: bytes,
    blob: Blob,
    frozen: Blob | None,
    held_seconds: float,
    *,
    inline: bool,
    turn: Blob | None = None,
) -> pb.Work:
    """A task as its device hears of it."""
    wave, slot = item
    message = wave.message
    work = pb.Work(
        kind=pb.Kind.Name(message.kind), task=item.task, nonce=nonce, round=message.round, version=message.version,
        model=pb.Blob(name=blob.name, nbytes=blob.nbytes, crc32c=blob.crc32c), inline=inline,
        steps=0 if wave.steps is None else int(wave.steps[slot]), share=1.0 if wave.share is None else float(wave.share[slot]),
        seed=message.seed, lease_seconds=message.lease_seconds,
        memory_task=-1 if wave.memory_task is None else int(wave.memory_task[slot]), held_seconds=held_seconds,
    )  # fmt: skip
    for name, column in zip(message.settings, wave.settings, strict=True):
        work.settings[name] = float(column[slot])
    if message.rows:
        work.rows.extend(np.frombuffer(message.rows[slot], np.uint32).tolist())
    if frozen is not None:
        work.frozen.CopyFrom(pb.Blob(name=frozen.name, nbytes=frozen.nbytes, crc32c=frozen.crc32c))
    if turn is not None:
        work.turn.CopyFrom(pb.Blob(name=turn.name, nbytes=turn.nbytes, crc32c=turn.crc32c))
    return work


async def hold_call(waiters: Waiters, client: int, seconds: float, on_gone: Callable[[int], None]) -> None:
    """Hold this client's call for `seconds` at most; `on_gone` is called for a device that hung up.

    Of two calls of one client the earlier ends: its device has lost that connection. A timer of its own costs half of `wait_for`.
    """
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()
    wake(waiters, client)
    waiters[client] = waiter
    timer = loop.call_later(seconds, _release, waiter)
    try:
        await waiter
    except asyncio.CancelledError:
        if waiters.get(client) is waiter:
            on_gone(client)
        raise
    finally:
        timer.cancel()
        if waiters.get(client) is waiter:
            del waiters[client]


def wake(waiters: Waiters, client: int) -> None:
    """End the wait of this client's call, if there is one."""
    waiter = waiters.pop(client, None)
    if waiter is not None:
        _release(waiter)


def _release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


_INVITATION_SECONDS = 2.0  # for which a place is kept


class Invitations:
    """Devices that were told to call at once and wait on the line: for each a place is kept until it calls, or for a moment."""

    def __init__(self) -> None:
        self._until: dict[int, float] = {}  # by client, the oldest first

    def add(self, client: int, now: float) -> None:
        """Keep a place for this client."""
        self._until.pop(client, None)
        self._until[client] = now + _INVITATION_SECONDS

    def remove(self, client: int) -> None:
        """It has called."""
        self._until.pop(client, None)

    def count(self, now: float) -> int:
        """How many places are kept now."""
        while self._until and next(iter(self._until.values())) <= now:
            del self._until[next(iter(self._until))]
        return len(self._until)


class DownloadGate:
    """Lets models of `max_bytes` in all pass at once; one that is alone may pass however large it is.

    Without it the beginning of a round would answer every held call at once, each with a copy of the model of its own.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.nbytes = 0

    async def acquire(self, nbytes: int, call: Any) -> None:
        """Wait for room for an answer of so many bytes, which is given back when the call ends (`add_done_callback`)."""
        reserved = [0]

        def release(*_: object) -> None:
            self._release(reserved[0])
            reserved[0] = -1

        call.add_done_callback(release)
        if self._queue or not self._fits(nbytes):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._queue.append((nbytes, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._release(nbytes)
                raise
        else:
            self.nbytes += nbytes
        if reserved[0] < 0:  # the call has ended while it waited
            self._release(nbytes)
        else:
            reserved[0] = nbytes

    def _fits(self, nbytes: int) -> bool:
        return not self.nbytes or self.nbytes + nbytes <= self._max_bytes

    def _release(self, nbytes: int) -> None:
        self.nbytes -= max(nbytes, 0)
        while self._queue and (self._queue[0][1].done() or self._fits(self._queue[0][0])):
            wanted, turn = self._queue.popleft()
            if not turn.done():
                self.nbytes += wanted
                turn.set_result(None)
