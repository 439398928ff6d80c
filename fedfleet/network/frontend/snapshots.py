"""Snapshots of partial sums that survive a kill at any moment: two files by turns, each with its place in an append-only log.

A snapshot holds the sums of all live buckets; the log says which reports are in them, so that a snapshot does not grow with its
reports. The older of the two files is overwritten, the newer left alone: whatever happens, one whole snapshot remains, and all
that it says of the log was made to last before it counted. The log goes on in a new segment when one is long enough, and a
segment that neither snapshot needs is removed.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedfleet.core.errors import RunFailed
from fedfleet.network.frontend.report_log import Bytes, checksum, records
from fedfleet.network.security.sum_cipher import NONCE_BYTES, SumCipher

SEGMENT = 1 << 18  # bytes of the log after which it goes on in a new file
_SLOTS = ("a.snap", "b.snap")  # snapshot n lies in slot n modulo 2
_MAGIC = b"fedfleet/sums@1\n"
_HEAD = struct.Struct("<16sQIQQ")  # magic, number, checksum of the rest, lengths of table and body
_CRC = struct.Struct("<I")
_HEAD_BYTES = _HEAD.size + _CRC.size
_PIECE = 1 << 20

Flat = NDArray[np.int64]


class SumImage(NamedTuple):
    """One sum of one bucket at one moment: all its limbs in one array.

    What the log has of this bucket before segment `since` is of another one that had the number and was thrown away.
    """

    bucket: int
    sum: str
    weight: int
    reports: int
    flat: Flat
    since: int = 0


class LogPosition(NamedTuple):
    """Up to where the log counts: segments `first` to `last`, the last one up to byte `end`."""

    first: int
    last: int
    end: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one file says, and the entries by bucket that the log has for it."""

    number: int
    position: LogPosition
    images: tuple[SumImage, ...]
    entries: Mapping[int, tuple[bytes, ...]] = field(default_factory=dict[int, tuple[bytes, ...]])


class _Unusable(Exception):
    """Why a snapshot cannot be used."""


def write_at(handle: int, data: Bytes, at: int) -> int:
    """Write all of this at a place of a file; where it ends."""
    view = memoryview(data).cast("B") if len(data) else memoryview(b"")
    while len(view):
        written = os.pwrite(handle, view[:_PIECE], at)
        view, at = view[written:], at + written
    return at


def sync_folder(folder: Path) -> None:
    """Make the names of new files last."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class SnapshotStore:
    """The files of one frontend's sums. `write` runs in one thread at a time.

    `size` is how many int64 an image has, `layout_crc` the checksum of what the sums are of: those of another model are not taken.
    With a `cipher` the sums are encrypted; the log holds no sums.
    """

    def __init__(self, folder: Path, *, size: int, layout_crc: int, cipher: SumCipher | None = None) -> None:
        self.folder, self._cipher = folder, cipher
        self.damages: tuple[str, ...] = ()
        self._size, self._layout_crc = size, layout_crc
        self._first_segment: dict[int, int] = {}  # by slot: the first segment that its snapshot needs
        self._oldest_segment = -1  # the segments before this one are gone
        self._folder_unsynced = True  # were files made that the folder does not name for sure?
        self._log: tuple[int, int] | None = None  # number and handle of the segment that is open
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._slots = [os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600) for name in _SLOTS]
            self.loaded = self._load()
        except OSError as error:
            raise RunFailed(
                f"the sums in {folder} cannot be opened ({error.strerror}); check disk space and permissions, then resume"
            ) from error

    def write(self, number: int, suffix: bytes, start: int, position: LogPosition, images: Sequence[SumImage]) -> None:
        """Append to the log and write snapshot `number`; when this returns, both last. RunFailed if the disk will not have it."""
        slot = number % 2
        try:
            log = self._segment(position.last)
            write_at(log, suffix, start)
            nonce = b"" if self._cipher is None else os.urandom(NONCE_BYTES)
            stream = None if self._cipher is None else self._cipher.keystream(nonce)
            _write_snapshot(self._slots[slot], number, self._table(position, images, nonce), images, stream)
            os.fdatasync(log)
            os.fdatasync(self._slots[slot])
            if self._folder_unsynced:
                sync_folder(self.folder)
                self._folder_unsynced = False
            self._first_segment[slot] = position.first
            if self._oldest_segment != min(self._first_segment.values()):
                self._oldest_segment = min(self._first_segment.values())
                self._remove(before=self._oldest_segment)
        except OSError as error:
            raise RunFailed(
                f"the sums cannot be written to {self.folder} ({error.strerror}); the previous snapshot is intact: "
                "free some space there, then resume"
            ) from error

    def close(self) -> None:
        """Close the files."""
        for handle in [*self._slots, *([self._log[1]] if self._log else [])]:
            os.close(handle)
        self._slots, self._log = [], None

    def _table(self, position: LogPosition, images: Sequence[SumImage], nonce: bytes) -> bytes:
        sums = [[image.bucket, image.sum, image.weight, image.reports, image.since] for image in images]
        table: dict[str, Any] = {"sheet": self._layout_crc, "size": self._size, "place": position, "sums": sums}
        if self._cipher is not None:
            table |= {"nonce": nonce.hex(), "key": self._cipher.mark}
        return json.dumps(table).encode()

    def _segment(self, number: int) -> int:
        """The open file of this segment of the log."""
        if self._log is None or self._log[0] != number:
            if self._log is not None:
                os.close(self._log[1])
                self._log = None
            path = self._log_path(number)
            self._folder_unsynced = self._folder_unsynced or not path.exists()
            self._log = number, os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        return self._log[1]

    def _log_path(self, number: int) -> Path:
        return self.folder / f"{number}.log"

    def _remove(self, *, before: int = 0, after: int | None = None) -> None:
        """Remove the segments of the log that no snapshot needs."""
        for path in self.folder.glob("*.log"):
            number = int(path.stem) if path.stem.isdigit() else before
            if number < before or (after is not None and number > after):
                path.unlink(missing_ok=True)

    def _load(self) -> Snapshot | None:
        """The newest whole snapshot with a whole log; what is wrong with a newer one is said, and it will never count again."""
        heads = [_read_head(handle) for handle in self._slots]
        numbers = {slot: -1 if head is None else head[0] for slot, head in enumerate(heads)}
        snapshot = None
        for slot in sorted(numbers, key=lambda s: numbers[s], reverse=True):
            if os.fstat(self._slots[slot]).st_size == 0 or (snapshot is not None and numbers[slot] >= 0):
                continue  # never written, or merely older
            try:
                if snapshot is None:
                    snapshot = self._read(slot)
                    self._first_segment[slot] = snapshot.position.first
                    continue
                reason = "its head is damaged"
            except _Unusable as error:
                reason = str(error)
            self.damages += (f"{self.folder / _SLOTS[slot]} cannot be used: {reason}",)
            os.ftruncate(self._slots[slot], 0)
            os.fdatasync(self._slots[slot])
        # What was appended to the log later has no sums, and new entries will take its place.
        self._remove(after=-1 if snapshot is None else snapshot.position.last)
        if snapshot is not None:
            os.ftruncate(self._segment(snapshot.position.last), snapshot.position.end)
        if self.damages:
            outcome = f"snapshot {snapshot.number} is used instead" if snapshot else "no other is whole, so nothing was found"
            self.damages += (f"of the sums in {self.folder}, {outcome}",)
        return snapshot

    def _read(self, slot: int) -> Snapshot:
        number, table, body = _read_snapshot(self._slots[slot])
        if number % 2 != slot:
            raise _Unusable(f"it is snapshot {number}, which belongs into the other file")
        try:
            fields = json.loads(table)
            position = LogPosition(*map(int, fields["place"]))
            heads = [(int(b), str(name), int(weight), int(count), int(since)) for b, name, weight, count, since in fields["sums"]]
            if (fields["sheet"], fields["size"], len(body)) != (self._layout_crc, self._size, self._size * len(heads)):
                raise _Unusable("it holds the sums of another model")
            body = self._decrypt(body, fields)
        except (ValueError, TypeError, KeyError) as error:
            raise _Unusable(f"its table cannot be read ({error})") from None
        arrays = np.split(body, len(heads)) if heads else []
        images = tuple(SumImage(*head[:4], flat, head[4]) for head, flat in zip(heads, arrays, strict=True))
        return Snapshot(number, position, images, self._entries(position, images))

    def _decrypt(self, body: Flat, table: dict[str, Any]) -> Flat:
        """The sums of a snapshot with this table; those that were written without a cipher are as they lie there."""
        if "key" not in table:
            return body
        if self._cipher is None or table["key"] != self._cipher.mark:
            raise _Unusable("its sums are encrypted with another secret")
        return np.frombuffer(self._cipher.keystream(bytes.fromhex(table["nonce"]))(body.tobytes()), np.int64)

    def _entries(self, position: LogPosition, images: tuple[SumImage, ...]) -> dict[int, tuple[bytes, ...]]:
        """The entries of live buckets in the log, exactly as many as are in the sums."""
        entries_of: dict[int, list[bytes]] = {image.bucket: [] for image in images}
        since = {image.bucket: image.since for image in images}
        for segment in range(position.first, position.last + 1):
            for bucket, entry in self._log_entries(segment, position):
                if bucket in entries_of and segment >= since[bucket]:
                    entries_of[bucket].append(entry)
        for bucket, entries in entries_of.items():
            count = sum(image.reports for image in images if image.bucket == bucket)
            if len(entries) != count:
                raise _Unusable(f"the log has {len(entries)} reports for bucket {bucket}, its sums have {count}")
        return {bucket: tuple(entries) for bucket, entries in entries_of.items()}

    def _log_entries(self, segment: int, position: LogPosition) -> list[tuple[int, bytes]]:
        path = self._log_path(segment)
        try:
            handle = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            raise _Unusable(f"{path.name} of the log is missing") from None
        try:
            limit = position.end if segment == position.last else os.fstat(handle).st_size
            if os.fstat(handle).st_size < limit:
                raise _Unusable(f"{path.name} of the log is shorter than the {limit} bytes that it names")
            log_records = list(records(handle, limit))
        finally:
            os.close(handle)
        if (log_records[-1].end if log_records else 0) != limit or any(one.entry is None for one in log_records):
            raise _Unusable(f"{path.name} of the log is damaged")
        return [(record.bucket, record.entry) for record in log_records if record.entry is not None]


def _write_snapshot(
    handle: int, number: int, table: bytes, images: Sequence[SumImage], stream: Callable[[Bytes], bytes] | None = None
) -> None:
    """A whole snapshot over an old one: first what it says, then its head. `stream` encrypts."""
    crc, at = checksum(table), write_at(handle, table, _HEAD_BYTES)
    for image in images:
        flat = image.flat.view(np.uint8)
        for a in range(0, len(flat), _PIECE):  # by turns, while the piece is in the cache
            piece = flat[a : a + _PIECE].data if stream is None else stream(flat[a : a + _PIECE].data)
            crc = checksum(piece, crc)
            at = write_at(handle, piece, at)
    head = _HEAD.pack(_MAGIC, number, crc, len(table), at - _HEAD_BYTES - len(table))
    write_at(handle, head + _CRC.pack(checksum(head)), 0)
    if os.fstat(handle).st_size > 2 * at + (1 << 20):  # else the old length is kept: new blocks cost more than old ones
        os.ftruncate(handle, at)


def _read_head(handle: int) -> tuple[Any, ...] | None:
    raw = os.pread(handle, _HEAD_BYTES, 0)
    if len(raw) < _HEAD_BYTES or _CRC.unpack_from(raw, _HEAD.size)[0] != checksum(raw[: _HEAD.size]):
        return None
    head = _HEAD.unpack_from(raw)
    return head[1:] if head[0] == _MAGIC else None


def _read_snapshot(handle: int) -> tuple[int, bytes, Flat]:
    head = _read_head(handle)
    if head is None:
        raise _Unusable("its head is damaged")
    number, crc, table_size, body_size = head
    if os.fstat(handle).st_size < _HEAD_BYTES + table_size + body_size or body_size % 8:
        raise _Unusable("it is torn")
    table = os.pread(handle, table_size, _HEAD_BYTES)
    body = np.empty(body_size // 8, np.int64)
    view, at = body.data.cast("B") if body_size else memoryview(b""), _HEAD_BYTES + table_size
    while len(view) and (done := os.preadv(handle, [view], at)):
        view, at = view[done:], at + done
    if len(view) or checksum(body, checksum(table)) != crc:
        raise _Unusable("it is torn or damaged: its checksum does not fit")
    return number, table, body
