"""What is written down about a report that was granted, and the form of records on disk: each with checksums of its own.

A record is a head (bucket, lengths, checksum of what follows, checksum of the head), an entry and perhaps a payload. The log of the
sums holds records without payloads, the spool with.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from google_crc32c import extend

from fedfleet.core.errors import Refused

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
    """The inverse of `entry_bytes`; `Refused` if these are not the bytes of an entry.

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
