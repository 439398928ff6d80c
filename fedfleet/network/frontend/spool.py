"""The spool: reports as they came over the wire, on disk, for folds that collect and for those who want to keep them.

One append-only file per bucket, so that a bucket that is not needed any more gives its space back. `add` only remembers; `sync`,
in a thread, writes and makes it last, so that no slow disk holds up the calls. What was torn by a kill is cut off at the start.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

from fedfleet.core.errors import RunFailed
from fedfleet.network.frontend.report_log import Bytes, Entered, entry_bytes, entry_from, record_head, records
from fedfleet.network.frontend.snapshots import put, sync_folder

_ENDING = ".spool"


class Spool:
    """The spool of one transmitter. All but `sync` belongs to one thread; `damages` says what was lost at the start.

    A payload stays in memory until `sync` has returned. Without `lasting` files are written and not synced: they survive no more
    than this process.
    """

    def __init__(self, folder: Path, *, lasting: bool = True) -> None:
        self.folder, self._lasting = folder, lasting
        self.damages: tuple[str, ...] = ()
        self._guard = threading.Lock()  # of the lists; held for a moment only
        self._disk = threading.Lock()  # of the files
        self._waiting: list[tuple[int, Entered, Bytes]] = []
        self._gone: set[int] = set()
        self._ends: dict[int, int] = {}
        self._handles: dict[int, int] = {}
        self._fresh = False  # were files made that the folder does not name for sure?
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._found = {bucket: self._opened(bucket) for bucket in _buckets(folder)}

    @property
    def dirty(self) -> bool:
        """Is there anything that `sync` has to write?"""
        return bool(self._waiting)

    def add(self, bucket: int, entry: Entered, payload: Bytes) -> None:
        """One more report of this bucket; safe when the next `sync` has returned."""
        entry_bytes(entry)  # what cannot be written down is refused here, and not in the thread
        with self._guard:
            self._waiting.append((bucket, entry, payload))

    def sync(self) -> None:
        """Write what was added so far, and make it last. RunFailed if the disk will not have it; then it can be tried again."""
        with self._disk:
            with self._guard:
                batch = self._waiting[:]
            touched = {bucket for bucket, _, _ in batch if bucket not in self._gone}
            try:
                ends = {b: self._ends.get(b, 0) for b in touched}
                for bucket, entry, payload in batch:
                    if bucket in touched:
                        ends[bucket] = self._appended(bucket, ends[bucket], entry, payload)
                for bucket in touched if self._lasting else ():
                    os.fdatasync(self._handles[bucket])
                if self._fresh and self._lasting:
                    sync_folder(self.folder)
                    self._fresh = False
            except OSError as wrong:
                raise RunFailed(
                    f"reports cannot be kept in {self.folder} ({wrong.strerror}); make room there, then resume"
                ) from wrong
            with self._guard:
                del self._waiting[: len(batch)]
                self._ends |= ends
            self._sweep()

    def found(self) -> dict[int, list[Entered]]:
        """What was there at the start, by bucket."""
        return {bucket: [entry_from(e) for e in entries] for bucket, entries in self._found.items() if entries}

    def read(self, bucket: int) -> list[tuple[Entered, bytes]]:
        """The reports of a bucket that are on disk."""
        return read_spool(self.folder, bucket)

    def discard(self, bucket: int) -> None:
        """A bucket that nobody needs any more; its space is given back, at once or by the `sync` that is under way."""
        with self._guard:
            self._gone.add(bucket)
            self._found.pop(bucket, None)
        if self._disk.acquire(blocking=False):
            try:
                self._sweep()
            finally:
                self._disk.release()

    def close(self) -> None:
        """Close the files."""
        with self._disk:
            for handle in self._handles.values():
                os.close(handle)
            self._handles.clear()

    def _opened(self, bucket: int) -> list[bytes]:
        """Open a bucket's file, cut off what was torn, and see what it holds."""
        path = _path(self.folder, bucket)
        handle = self._handles[bucket] = os.open(path, os.O_RDWR)
        size, end, held = os.fstat(handle).st_size, 0, list[bytes]()
        for found in records(handle, size):
            end = found.end
            if found.entry is None:
                self.damages += (f"a report in {path} is damaged, and left out",)
            else:
                held.append(found.entry)
        if end < size:
            self.damages += (f"the last {size - end} bytes of {path} are no whole report, and were cut off",)
            os.ftruncate(handle, end)
        self._ends[bucket] = end
        return held

    def _appended(self, bucket: int, at: int, entry: Entered, payload: Bytes) -> int:
        if bucket not in self._handles:
            self._handles[bucket] = os.open(_path(self.folder, bucket), os.O_RDWR | os.O_CREAT, 0o600)
            self._fresh = True
        said = entry_bytes(entry)
        for piece in (record_head(bucket, said, payload) + said, payload):
            at = put(self._handles[bucket], piece, at)
        return at

    def _sweep(self) -> None:
        """Remove the files of buckets that were discarded."""
        with self._guard:
            gone, self._gone = self._gone, set()
            self._waiting = [one for one in self._waiting if one[0] not in gone]
        for bucket in gone:
            self._ends.pop(bucket, None)
            handle = self._handles.pop(bucket, None)
            if handle is not None:
                os.close(handle)
            _path(self.folder, bucket).unlink(missing_ok=True)


def read_spool(folder: Path, bucket: int) -> list[tuple[Entered, bytes]]:
    """The whole reports of a bucket in a spool, also in that of another process."""
    return list(_read(_path(folder, bucket)))


def _read(path: Path) -> Iterator[tuple[Entered, bytes]]:
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        for found in records(handle, os.fstat(handle).st_size):
            if found.entry is not None:
                yield entry_from(found.entry), found.payload
    finally:
        os.close(handle)


def _path(folder: Path, bucket: int) -> Path:
    return folder / f"{bucket}{_ENDING}"


def _buckets(folder: Path) -> list[int]:
    return sorted(int(p.name.removesuffix(_ENDING)) for p in folder.glob(f"*{_ENDING}") if p.stem.isdigit())
