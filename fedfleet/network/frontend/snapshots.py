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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedfleet.core.errors import RunFailed
from fedfleet.network.frontend.report_log import Bytes, checksum, records

SEGMENT = 1 << 18  # bytes of the log after which it goes on in a new file
_SLOTS = ("a.snap", "b.snap")  # snapshot n lies in slot n modulo 2
_MAGIC = b"fedfleet/sums@1\n"
_HEAD = struct.Struct("<16sQIQQ")  # magic, number, checksum of the rest, lengths of table and body
_CRC = struct.Struct("<I")
_HEAD_BYTES = _HEAD.size + _CRC.size
_PIECE = 1 << 20

Flat = NDArray[np.int64]


class Image(NamedTuple):
    """One sum of one bucket at one moment: all its limbs in one array.

    What the log has of this bucket before segment `since` is of another one that had the number and was thrown away.
    """

    bucket: int
    sum: str
    weight: int
    reports: int
    flat: Flat
    since: int = 0


class Place(NamedTuple):
    """Up to where the log counts: segments `first` to `last`, the last one up to byte `end`."""

    first: int
    last: int
    end: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one file says, and the entries by bucket that the log has for it."""

    number: int
    place: Place
    images: tuple[Image, ...]
    entries: Mapping[int, tuple[bytes, ...]] = field(default_factory=dict[int, tuple[bytes, ...]])


class _Unusable(Exception):
    """Why a snapshot cannot be used."""


def put(handle: int, data: Bytes, at: int) -> int:
    """Write all of this at a place of a file; where it ends."""
    view = memoryview(data).cast("B") if len(data) else memoryview(b"")
    while len(view):
        done = os.pwrite(handle, view[:_PIECE], at)
        view, at = view[done:], at + done
    return at


def sync_folder(folder: Path) -> None:
    """Make the names of new files last."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Shelf:
    """The files of one transmitter's sums. `write` runs in one thread at a time.

    `size` is how many int64 an image has, `sheet` the checksum of what the sums are of: those of another model are not taken.
    """

    def __init__(self, folder: Path, *, size: int, sheet: int) -> None:
        self.folder = folder
        self.damages: tuple[str, ...] = ()
        self._size, self._sheet = size, sheet
        self._first: dict[int, int] = {}  # by slot: the first segment that its snapshot needs
        self._floor = -1  # the segments before this one are gone
        self._fresh = True  # were files made that the folder does not name for sure?
        self._log: tuple[int, int] | None = None  # number and handle of the segment that is open
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._slots = [os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600) for name in _SLOTS]
            self.loaded = self._load()
        except OSError as wrong:
            raise RunFailed(
                f"the sums in {folder} cannot be opened ({wrong.strerror}); see to the disk, then resume"
            ) from wrong

    def write(self, number: int, suffix: bytes, start: int, place: Place, images: Sequence[Image]) -> None:
        """Append to the log and write snapshot `number`; when this returns, both last. RunFailed if the disk will not have it."""
        slot = number % 2
        try:
            log = self._segment(place.last)
            put(log, suffix, start)
            _write_snapshot(self._slots[slot], number, self._table(place, images), images)
            os.fdatasync(log)
            os.fdatasync(self._slots[slot])
            if self._fresh:
                sync_folder(self.folder)
                self._fresh = False
            self._first[slot] = place.first
            if self._floor != min(self._first.values()):
                self._floor = min(self._first.values())
                self._remove(before=self._floor)
        except OSError as wrong:
            raise RunFailed(
                f"the sums cannot be written to {self.folder} ({wrong.strerror}); the snapshot before this one is whole: "
                "make room there, then resume"
            ) from wrong

    def close(self) -> None:
        """Close the files."""
        for handle in [*self._slots, *([self._log[1]] if self._log else [])]:
            os.close(handle)
        self._slots, self._log = [], None

    def _table(self, place: Place, images: Sequence[Image]) -> bytes:
        sums = [[image.bucket, image.sum, image.weight, image.reports, image.since] for image in images]
        return json.dumps({"sheet": self._sheet, "size": self._size, "place": place, "sums": sums}).encode()

    def _segment(self, number: int) -> int:
        """The open file of this segment of the log."""
        if self._log is None or self._log[0] != number:
            if self._log is not None:
                os.close(self._log[1])
                self._log = None
            path = self._log_path(number)
            self._fresh = self._fresh or not path.exists()
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
        told = {slot: _number(handle) for slot, handle in enumerate(self._slots)}
        found = None
        for slot in sorted(told, key=lambda s: told[s], reverse=True):
            if os.fstat(self._slots[slot]).st_size == 0 or (found is not None and told[slot] >= 0):
                continue  # never written, or merely older
            try:
                if found is None:
                    found = self._read(slot)
                    self._first[slot] = found.place.first
                    continue
                why = "its head is damaged"
            except _Unusable as wrong:
                why = str(wrong)
            self.damages += (f"{self.folder / _SLOTS[slot]} cannot be used: {why}",)
            _forget(self._slots[slot])
        self._tidy(found)
        if self.damages:
            rest = f"snapshot {found.number} is used instead" if found else "no other is whole, so nothing was found"
            self.damages += (f"of the sums in {self.folder}, {rest}",)
        return found

    def _tidy(self, found: Snapshot | None) -> None:
        """Leave of the log what the snapshot names: what was appended later has no sums, and new entries will take its place."""
        if found is None:
            self._remove(after=-1)
            return
        self._remove(after=found.place.last)
        os.ftruncate(self._segment(found.place.last), found.place.end)

    def _read(self, slot: int) -> Snapshot:
        number, table, body = _read_snapshot(self._slots[slot])
        if number % 2 != slot:
            raise _Unusable(f"it is snapshot {number}, which belongs into the other file")
        try:
            said = json.loads(table)
            place = Place(*map(int, said["place"]))
            heads = [
                (int(b), str(name), int(weight), int(count), int(since))
                for b, name, weight, count, since in said["sums"]
            ]
            if (said["sheet"], said["size"], len(body)) != (self._sheet, self._size, self._size * len(heads)):
                raise _Unusable("it holds the sums of another model")
        except (ValueError, TypeError, KeyError) as wrong:
            raise _Unusable(f"its table cannot be read ({wrong})") from None
        cut = np.split(body, len(heads)) if heads else []
        images = tuple(Image(*head[:4], flat, head[4]) for head, flat in zip(heads, cut, strict=True))
        return Snapshot(number, place, images, self._entries(place, images))

    def _entries(self, place: Place, images: tuple[Image, ...]) -> dict[int, tuple[bytes, ...]]:
        """The entries of live buckets in the log, exactly as many as are in the sums."""
        held: dict[int, list[bytes]] = {image.bucket: [] for image in images}
        since = {image.bucket: image.since for image in images}
        for segment in range(place.first, place.last + 1):
            for bucket, entry in self._logged(segment, place):
                if bucket in held and segment >= since[bucket]:
                    held[bucket].append(entry)
        for bucket, entries in held.items():
            count = sum(image.reports for image in images if image.bucket == bucket)
            if len(entries) != count:
                raise _Unusable(f"the log has {len(entries)} reports for bucket {bucket}, its sums have {count}")
        return {bucket: tuple(entries) for bucket, entries in held.items()}

    def _logged(self, segment: int, place: Place) -> list[tuple[int, bytes]]:
        path = self._log_path(segment)
        try:
            handle = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            raise _Unusable(f"{path.name} of the log is missing") from None
        try:
            limit = place.end if segment == place.last else os.fstat(handle).st_size
            if os.fstat(handle).st_size < limit:
                raise _Unusable(f"{path.name} of the log is shorter than the {limit} bytes that it names")
            found = list(records(handle, limit))
        finally:
            os.close(handle)
        if (found[-1].end if found else 0) != limit or any(one.entry is None for one in found):
            raise _Unusable(f"{path.name} of the log is damaged")
        return [(one.bucket, one.entry) for one in found if one.entry is not None]


def _write_snapshot(handle: int, number: int, table: bytes, images: Sequence[Image]) -> None:
    """A whole snapshot over an old one: first what it says, then its head."""
    crc, at = checksum(table), put(handle, table, _HEAD_BYTES)
    for image in images:
        flat = image.flat.view(np.uint8)
        for a in range(0, len(flat), _PIECE):  # by turns, while the piece is in the cache
            piece = flat[a : a + _PIECE]
            crc = checksum(piece, crc)
            at = put(handle, piece.data, at)
    head = _HEAD.pack(_MAGIC, number, crc, len(table), at - _HEAD_BYTES - len(table))
    put(handle, head + _CRC.pack(checksum(head)), 0)
    if os.fstat(handle).st_size > 2 * at + (1 << 20):  # else the old length is kept: new blocks cost more than old ones
        os.ftruncate(handle, at)


def _head(handle: int) -> tuple[Any, ...] | None:
    raw = os.pread(handle, _HEAD_BYTES, 0)
    if len(raw) < _HEAD_BYTES or _CRC.unpack_from(raw, _HEAD.size)[0] != checksum(raw[: _HEAD.size]):
        return None
    found = _HEAD.unpack_from(raw)
    return found[1:] if found[0] == _MAGIC else None


def _number(handle: int) -> int:
    """Which snapshot a file claims to be; -1 if it has no whole head."""
    found = _head(handle)
    return -1 if found is None else found[0]


def _forget(handle: int) -> None:
    """See that a file can never count again, whatever will be written to the log."""
    os.ftruncate(handle, 0)
    os.fdatasync(handle)


def _read_snapshot(handle: int) -> tuple[int, bytes, Flat]:
    found = _head(handle)
    if found is None:
        raise _Unusable("its head is damaged")
    number, crc, table_size, body_size = found
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
