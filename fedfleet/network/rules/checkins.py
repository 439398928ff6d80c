"""When devices were there: check-ins merged into intervals, and a compact file of those that have ended.

A block holds intervals by client and start: how much the client's number grew, when the interval began within the block, and how
long it was, as variable-length integers of ticks, 5 to 9 bytes in all. A file is blocks with checksums, only ever appended to; what
a crash left half written, or a disk damaged, is passed over when the file is read.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from google_crc32c import value as crc32c

from fedfleet.core.errors import BadInput
from fedfleet.core.records import Floats, Ints

TICK = 0.1  # seconds; an interval begins at the tick before it and ends at the tick after it
MAX_GAP_SECONDS = 60.0  # a shorter silence is no absence
MAX_INTERVAL_SECONDS = 3600.0  # an interval is written in pieces of this length, so that a crash costs no more
MAX_ROWS = 1 << 20  # of a block
_HEAD = struct.Struct("<4sIIqI")  # mark, rows, bytes, first tick, checksum of these and the bytes
_MARK = b"FFci"


class Intervals(NamedTuple):
    """Clients and from when to when each was there, in seconds of the run."""

    clients: Ints
    starts: Floats
    ends: Floats

    def select(self, at: Ints | slice) -> Intervals:
        """Those at these places, in this order."""
        return Intervals(self.clients[at], self.starts[at], self.ends[at])


NO_INTERVALS = Intervals(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))


class OpenIntervals:
    """Intervals that have not ended yet: two numbers a client."""

    def __init__(self, clients: int, gap: float = MAX_GAP_SECONDS) -> None:
        self._gap = gap
        self._start = np.full(clients, math.nan)
        self._end = np.full(clients, -math.inf)

    def extend(self, clients: Ints, arrivals: Floats, departures: Floats) -> Intervals:
        """These were there from arrival to departure, each client's stays in order; the intervals that ended before a gap."""
        ended: list[Intervals] = []
        while len(clients):
            _, first = np.unique(clients, return_index=True)  # a client's second stay is looked at after its first
            ended.append(self._extend_once(clients[first], arrivals[first], departures[first]))
            rest = np.ones(len(clients), bool)
            rest[first] = False
            clients, arrivals, departures = clients[rest], arrivals[rest], departures[rest]
        return join_intervals(ended)

    def take_ended(self, now: float, longest: float = MAX_INTERVAL_SECONDS) -> Intervals:
        """Intervals whose clients have been away for longer than a gap; and of longer ones what is certain so far."""
        present = ~np.isnan(self._start)
        away = present & (self._end + self._gap < now)
        long = present & ~away & (self._end - self._start >= longest)
        at = np.flatnonzero(away | long)
        intervals_so_far = Intervals(at, self._start[at], self._end[at])
        self._start[away] = math.nan
        self._start[long] = self._end[long]
        return intervals_so_far

    def take_all(self) -> Intervals:
        """Whatever there is, for a server that stops."""
        return self.take_ended(math.inf)

    def _extend_once(self, clients: Ints, arrivals: Floats, departures: Floats) -> Intervals:
        start, end = self._start[clients], self._end[clients]
        present = ~np.isnan(start)
        is_new = ~present | (arrivals > end + self._gap)
        at = present & is_new
        self._start[clients] = np.where(is_new, arrivals, np.minimum(start, arrivals))
        self._end[clients] = np.where(is_new, np.maximum(arrivals, departures), np.maximum(end, departures))
        return Intervals(clients[at], start[at], end[at])


def join_intervals(parts: list[Intervals]) -> Intervals:
    """Several columns of intervals as one."""
    if not parts:
        return NO_INTERVALS
    return Intervals(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def encode_block(intervals: Intervals) -> bytes:
    """Intervals as one block. They come back by client and start, wider by less than a tick at each end."""
    if len(intervals.clients) > MAX_ROWS:
        raise ValueError(f"a block holds at most {MAX_ROWS} intervals")
    starts = np.floor(intervals.starts / TICK).astype(np.int64)
    ends = np.maximum(np.ceil(intervals.ends / TICK).astype(np.int64), starts)
    order = np.lexsort((starts, intervals.clients))
    clients, starts, ends = intervals.clients[order], starts[order], ends[order]
    base = int(starts.min()) if len(starts) else 0
    rows = np.stack([np.diff(clients, prepend=0), starts - base, ends - starts], axis=1)
    body = _to_varints(rows.ravel().astype(np.uint64))
    head = _HEAD.pack(_MARK, len(clients), len(body), base, 0)
    return _HEAD.pack(_MARK, len(clients), len(body), base, crc32c(head + body)) + body


def decode_block(data: bytes, at: int = 0) -> tuple[Intervals, int] | None:
    """The block at this place and where it ends; None: there is no whole, undamaged block."""
    if at + _HEAD.size > len(data):
        return None
    mark, rows, nbytes, base, checksum = _HEAD.unpack_from(data, at)
    end = at + _HEAD.size + nbytes
    body = data[at + _HEAD.size : end]
    if mark != _MARK or end > len(data) or crc32c(_HEAD.pack(mark, rows, nbytes, base, 0) + body) != checksum:
        return None
    columns = _from_varints(body).astype(np.int64).reshape(rows, 3)
    starts = base + columns[:, 1]
    return Intervals(np.cumsum(columns[:, 0]), _seconds(starts), _seconds(starts + columns[:, 2])), end


class CheckinWriter:
    """Appends blocks to a file; what a crash left at its end stays where it is, and is no block."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def append(self, intervals: Intervals) -> int:
        """Write these; how many bytes they took. They are with the system, not on disk yet: see `sync`."""
        size = 0
        for first in range(0, len(intervals.clients), MAX_ROWS):
            block = memoryview(encode_block(intervals.select(slice(first, first + MAX_ROWS))))
            size += len(block)
            while len(block):
                block = block[os.write(self._file, block) :]
        return size

    def sync(self) -> None:
        """Wait until all is on disk."""
        os.fdatasync(self._file)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


def read_intervals(path: Path, gap: float = 2 * TICK) -> Intervals:
    """All intervals of a file, by client and start; pieces of one stay, which `gap` at most divides, are one again.

    What a crash left half written is passed over.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"check-ins cannot be read from {path} ({error.strerror}); name the file of a served run") from None
    blocks = list(_blocks(data))
    if not blocks and not _MARK.startswith(data[: len(_MARK)]):
        raise BadInput(f"{path} is not a file of check-ins; name the file of a served run")
    return _merge_pieces(join_intervals(blocks), gap)


def _merge_pieces(pieces: Intervals, gap: float) -> Intervals:
    if not len(pieces.clients):
        return NO_INTERVALS
    pieces = pieces.select(np.lexsort((pieces.starts, pieces.clients)))
    starts, ends = (np.rint(column / TICK).astype(np.int64) for column in (pieces.starts, pieces.ends))
    # A stay may lie within an earlier one of the same client: what counts is the latest end so far, client by client.
    other = np.concatenate([[False], pieces.clients[1:] != pieces.clients[:-1]])
    shift = np.cumsum(other) * (ends.max() - starts.min() + 1)
    latest = np.maximum.accumulate(ends + shift) - shift
    is_first = other | np.concatenate([[True], starts[1:] > latest[:-1] + round(gap / TICK)])
    first = np.flatnonzero(is_first)
    last = np.append(first[1:] - 1, len(starts) - 1)
    return Intervals(pieces.clients[first], _seconds(starts[first]), _seconds(latest[last]))


def _seconds(ticks: Ints) -> Floats:
    return ticks.astype(np.float64) * TICK


def _blocks(data: bytes) -> Iterator[Intervals]:
    """All whole blocks; after bytes that are none, the next that begins with the mark."""
    at = 0
    while at >= 0:
        block = decode_block(data, at)
        if block is None:
            at = data.find(_MARK, at + 1)
        else:
            at = block[1]
            yield block[0]


def _to_varints(values: np.ndarray) -> bytes:
    """Seven bits a byte, the lowest first; the top bit says that another byte follows."""
    sizes = np.ones(len(values), np.int64)
    for k in range(1, 10):
        sizes += values >= np.uint64(1 << 7 * k)
    offsets = np.cumsum(sizes) - sizes
    varints = np.zeros(int(sizes.sum()), np.uint8)
    for k in range(int(sizes.max(initial=0))):
        longer = sizes > k
        low = (values[longer] >> np.uint64(7 * k)).astype(np.uint8) & np.uint8(0x7F)
        varints[offsets[longer] + k] = low | np.where(sizes[longer] > k + 1, np.uint8(0x80), np.uint8(0))
    return varints.tobytes()


def _from_varints(data: bytes) -> np.ndarray:
    raw = np.frombuffer(data, np.uint8)
    if not len(raw):
        return np.zeros(0, np.uint64)
    begins = np.concatenate([[0], np.flatnonzero(raw < 0x80)[:-1] + 1])
    place = np.arange(len(raw)) - np.repeat(begins, np.diff(np.append(begins, len(raw))))
    return np.add.reduceat((raw & np.uint8(0x7F)).astype(np.uint64) << (7 * place).astype(np.uint64), begins)
