"""The log of granted reports: what is written down of each, records on disk, and the commits that make many safe at once.

A record is a head (bucket, lengths, checksum of what follows, checksum of the head), an entry and perhaps a payload. The log of the
sums holds records without payloads, the spool with. In a group commit reports enter the sums at once, and are acknowledged together
when a snapshot of them is on the disk."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from google_crc32c import extend

from fedfleet.core.errors import Refused
from fedfleet.core.trees import Array, Tree
from fedfleet.store.files import save_tree

if TYPE_CHECKING:  # both write entries of this log
    from fedfleet.network.frontend.partial_sums import PartialSums
    from fedfleet.network.frontend.spool import Spool
    from fedfleet.network.security.sum_cipher import SumCipher

MAX_NAMES = 64  # statistics and stages of one report together
_FIXED = struct.Struct("<QIQdddIQBBB")  # task .. nbytes, stats, how many names, the length of the sum's name
_HEAD = struct.Struct("<IIQI")  # bucket, length of the entry, length of the payload, checksum of both
_CRC = struct.Struct("<I")
_HEAD_BYTES = _HEAD.size + _CRC.size
_PIECE = 1 << 20  # a checksum holds the interpreter's lock: never for longer than so many bytes take

Bytes = bytes | bytearray | memoryview


class LogEntry(NamedTuple):
    """How one report entered: by which grant, with which weight and factor, into the sum of which name, and what it said.

    The first `stats` of names and values are statistics, the rest are seconds spent by stage.
    """

    task: int
    client: int
    order: int
    time: float
    weight: float
    factor: float
    sum: str
    crc32c: int
    nbytes: int
    names: tuple[str, ...]
    values: tuple[float, ...]
    stats: int


def entry_to_bytes(entry: LogEntry) -> bytes:
    """An entry as bytes; `Refused` if it does not fit into its bounds."""
    names = [name.encode() for name in entry.names]
    sum_name = entry.sum.encode()
    if len(names) > MAX_NAMES or len(entry.values) != len(names) or entry.stats > len(names):
        raise Refused(f"it has {len(names)} names for {len(entry.values)} values, and {MAX_NAMES} are the most")
    if any(len(name) > 255 for name in (sum_name, *names)):
        raise Refused("a name in it is longer than 255 bytes")
    try:
        fixed = _FIXED.pack(
            entry.task, entry.client, entry.order, entry.time, entry.weight, entry.factor, entry.crc32c, entry.nbytes,
            entry.stats, len(names), len(sum_name),
        )  # fmt: skip
        values = struct.pack(f"<{len(names)}d", *entry.values)
    except struct.error as error:
        raise Refused(f"one of its numbers is out of range ({error})") from None
    return b"".join((fixed, values, bytes(map(len, names)), sum_name, *names))


def entry_from_bytes(data: Bytes) -> LogEntry:
    """The inverse of `entry_to_bytes`; `Refused` if these are not the bytes of an entry.

    >>> e = LogEntry(1, 2, 3, 0.5, 10.0, 1.0, "", 7, 99, ("loss", "train"), (0.25, 3.0), 1)
    >>> entry_from_bytes(entry_to_bytes(e)) == e
    True
    """
    data = bytes(data)
    try:
        task, client, order, time, weight, factor, crc, nbytes, stats, n, sum_name_size = _FIXED.unpack_from(data)
        values = struct.unpack_from(f"<{n}d", data, _FIXED.size)
        at = _FIXED.size + 8 * n
        sizes = (sum_name_size, *data[at : at + n])
        at += n
        texts: list[str] = []
        for size in sizes:
            texts.append(data[at : at + size].decode())
            at += size
    except (struct.error, UnicodeDecodeError) as error:
        raise Refused(f"these bytes are not a log entry ({error})") from None
    if at != len(data) or len(sizes) != n + 1 or n > MAX_NAMES or stats > n:
        raise Refused("these bytes are not a log entry: their lengths do not add up")
    return LogEntry(task, client, order, time, weight, factor, texts[0], crc, nbytes, tuple(texts[1:]), values, stats)


def checksum(data: Bytes | np.ndarray, crc: int = 0) -> int:
    """CRC-32C of bytes wherever they lie, going on from that of what came before; other threads get their turn."""
    flat = data.reshape(-1).view(np.uint8) if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
    for a in range(0, len(flat), _PIECE):
        crc = extend(crc, flat[a : a + _PIECE])  # type: ignore[arg-type]  # it takes any read buffer without a lock
    return crc


def record_head(bucket: int, entry: bytes, payload: Bytes = b"") -> bytes:
    """What goes before an entry and its payload on disk."""
    head = _HEAD.pack(bucket, len(entry), len(payload), checksum(payload, checksum(entry)))
    return head + _CRC.pack(checksum(head))


class Record(NamedTuple):
    """A record as it was read; without an entry if its content was damaged. `end` is where the next one begins."""

    bucket: int
    entry: bytes | None
    payload: bytes
    end: int


def records(handle: int, limit: int) -> Iterator[Record]:
    """The records of an open file up to `limit`, until one has no whole head: from there on nothing can be told apart."""
    at = 0
    while at + _HEAD_BYTES <= limit:
        raw = os.pread(handle, _HEAD_BYTES, at)
        if len(raw) < _HEAD_BYTES or _CRC.unpack_from(raw, _HEAD.size)[0] != checksum(raw[: _HEAD.size]):
            return
        bucket, entry_size, payload_size, crc = _HEAD.unpack_from(raw)
        end = at + _HEAD_BYTES + entry_size + payload_size
        if end > limit:
            return
        entry = os.pread(handle, entry_size, at + _HEAD_BYTES)
        payload = os.pread(handle, payload_size, at + _HEAD_BYTES + entry_size)
        intact = checksum(payload, checksum(entry)) == crc and len(entry) == entry_size and len(payload) == payload_size
        yield Record(bucket, entry if intact else None, payload if intact else b"", end)
        at = end


def _save_sums(path: Path, sums: Tree, cipher: SumCipher | None) -> None:
    """Hand sums on in a file."""
    if cipher is None:
        save_tree(path, sums)
    else:
        save_tree(path, *cipher.encrypt_tree(sums))


Acknowledge = Callable[[], None]
_WAIT_FACTOR = 4.0  # of the time, at most one part in this many is spent on making sums safe ..
_MAX_SECONDS = 0.5  # .. unless devices would wait longer than this for a receipt


def commit_interval(seconds: float, last_seconds: float) -> float:
    """How long after a commit began the next may: so that large snapshots leave most of the time to receiving.

    >>> commit_interval(0.02, 0.002), commit_interval(0.02, 0.03), commit_interval(0.02, 4.0)
    (0.02, 0.12, 0.5)
    """
    return max(seconds, min(_WAIT_FACTOR * last_seconds, _MAX_SECONDS))


class GroupCommit:
    """Where a frontend puts granted reports. `on_safe` gets the tasks that a commit has made safe."""

    def __init__(
        self, sums: PartialSums | None, spool: Spool | None, *, durable: bool, seconds: float, on_safe: Callable[[list[int]], None],
        cipher: SumCipher | None = None,
    ) -> None:  # fmt: skip
        self._cipher = cipher
        self.sums, self.spool, self._durable, self._seconds, self._on_safe = sums, spool, durable, seconds, on_safe
        self._waiting: list[tuple[int, Acknowledge]] = []
        self._wake = asyncio.Event()
        self._commit_now = asyncio.Event()  # the server waits for a bucket: do not gather any longer
        self._lock = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "fedfleet-commit")
        self.commits = 0

    def add(
        self,
        bucket: int,
        entry: LogEntry,
        tree: Tree,
        payload: memoryview | bytes,
        acknowledge: Acknowledge,
        flat_update: Array | None = None,
    ) -> None:
        """Fold, or spool, a granted report; `acknowledge` is called when it is safe. `flat_update`: see `PartialSums.add`."""
        if self.sums is not None:
            self.sums.add(bucket, entry, tree, flat_update)
        if self.spool is not None:
            self.spool.add(bucket, entry, payload)
        self._waiting.append((entry.task, acknowledge))
        if self._durable or self.spool is not None:  # what is spooled must reach its file in any case
            self._wake.set()
        if not self._durable:
            self._acknowledge(self._take_waiting())

    async def run(self) -> None:
        """Commit for ever: together what gathered in the meantime; a report that comes after a silence is committed at once."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            await self._wake.wait()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._commit_now.wait(), max(0.0, due - loop.time()))
            began = loop.time()
            await self.commit()
            due = began + commit_interval(self._seconds, loop.time() - began)

    async def commit(self) -> None:
        """Make everything that was added so far safe."""
        async with self._lock:
            self._wake.clear()
            self._commit_now.clear()
            waiting = self._take_waiting()
            if not waiting and not (self.spool is not None and self.spool.dirty):
                return
            frozen_sums = self.sums.freeze() if self.sums is not None else None
            loop = asyncio.get_running_loop()
            if self.spool is not None:  # first: what counts as safe was kept too
                await loop.run_in_executor(self._thread, self.spool.sync)
            if frozen_sums is not None:
                await loop.run_in_executor(self._thread, frozen_sums.write)
            self.commits += 1
            self._acknowledge(waiting)

    async def close(self, bucket: int, path: Path) -> tuple[str, int]:
        """Everything of a bucket is safe; the file with its sums ("" if there are none), and how many reports it holds."""
        if self._durable or self.spool is not None:
            self._commit_now.set()
            await self.commit()
        sums = self.sums.bucket_sums(bucket) if self.sums is not None else None
        count = self.sums.count(bucket) if self.sums is not None else 0
        if sums is None:
            return "", 0
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, _save_sums, path, sums, self._cipher)
        return str(path), count

    def discard(self, bucket: int) -> None:
        """Its commit is made, or will never be."""
        if self.sums is not None:
            self.sums.discard(bucket)
        if self.spool is not None:
            self.spool.discard(bucket)

    def _take_waiting(self) -> list[tuple[int, Acknowledge]]:
        waiting, self._waiting = self._waiting, []
        return waiting

    def _acknowledge(self, waiting: list[tuple[int, Acknowledge]]) -> None:
        self._on_safe([task for task, _ in waiting])
        for _, acknowledge in waiting:
            acknowledge()
