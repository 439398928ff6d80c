"""The spool: reports as they came over the wire, on disk, for folds that collect and for those who want to keep them.

One append-only file per bucket, so that a bucket that is not needed any more gives its space back. `add` only remembers; `sync`,
in a thread, writes and makes it last, so that no slow disk holds up the calls. What was torn by a kill is cut off at the start.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from fedfleet.core.errors import RunFailed
from fedfleet.network.frontend.report_log import Bytes, LogEntry, entry_from_bytes, entry_to_bytes, record_head, records
from fedfleet.network.frontend.snapshots import sync_folder, write_at
from fedfleet.network.security.sum_cipher import SumCipher

_SUFFIX = ".spool"


class Spool:
    """The spool of one frontend. All but `sync` belongs to one thread; `damages` says what was lost at the start.

    A payload stays in memory until `sync` has returned. Without `lasting` files are written and not synced: they survive no more
    than this process. A `cipher` encrypts payloads in the files.
    """

    def __init__(self, folder: Path, *, lasting: bool = True, cipher: SumCipher | None = None) -> None:
        self.folder, self._lasting, self._cipher = folder, lasting, cipher
        self.damages: tuple[str, ...] = ()
        self._list_lock = threading.Lock()  # of the lists; held for a moment only
        self._file_lock = threading.Lock()  # of the files
        self._waiting: list[tuple[int, LogEntry, Bytes]] = []
        self._discarded: set[int] = set()
        self._ends: dict[int, int] = {}
        self._handles: dict[int, int] = {}
        self._folder_unsynced = False  # were files made that the folder does not name for sure?
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._recovered = {bucket: self._open_bucket(bucket) for bucket in _buckets(folder)}

    @property
    def dirty(self) -> bool:
        """Is there anything that `sync` has to write?"""
        return bool(self._waiting)

    def add(self, bucket: int, entry: LogEntry, payload: Bytes) -> None:
        """One more report of this bucket; safe when the next `sync` has returned."""
        entry_to_bytes(entry)  # what cannot be written down is refused here, and not in the thread
        with self._list_lock:
            self._waiting.append((bucket, entry, payload))

    def sync(self) -> None:
        """Write what was added so far, and make it last. RunFailed if the disk will not have it; then it can be tried again."""
        with self._file_lock:
            with self._list_lock:
                batch = self._waiting[:]
            touched = {bucket for bucket, _, _ in batch if bucket not in self._discarded}
            try:
                ends = {b: self._ends.get(b, 0) for b in touched}
                for bucket, entry, payload in batch:
                    if bucket in touched:
                        ends[bucket] = self._append(bucket, ends[bucket], entry, payload)
                for bucket in touched if self._lasting else ():
                    os.fdatasync(self._handles[bucket])
                if self._folder_unsynced and self._lasting:
                    sync_folder(self.folder)
                    self._folder_unsynced = False
            except OSError as error:
                raise RunFailed(
                    f"reports cannot be written to {self.folder} ({error.strerror}); free some space there, then resume"
                ) from error
            with self._list_lock:
                del self._waiting[: len(batch)]
                self._ends |= ends
            self._remove_discarded()

    def recovered_entries(self) -> dict[int, list[LogEntry]]:
        """What was there at the start, by bucket."""
        return {bucket: [entry_from_bytes(e) for e in entries] for bucket, entries in self._recovered.items() if entries}

    def discard(self, bucket: int) -> None:
        """A bucket that nobody needs any more; its space is given back, at once or by the `sync` that is under way."""
        with self._list_lock:
            self._discarded.add(bucket)
            self._recovered.pop(bucket, None)
        if self._file_lock.acquire(blocking=False):
            try:
                self._remove_discarded()
            finally:
                self._file_lock.release()

    def close(self) -> None:
        """Close the files."""
        with self._file_lock:
            for handle in self._handles.values():
                os.close(handle)
            self._handles.clear()

    def _open_bucket(self, bucket: int) -> list[bytes]:
        """Open a bucket's file, cut off what was torn, and see what it holds."""
        path = _path(self.folder, bucket)
        handle = self._handles[bucket] = os.open(path, os.O_RDWR)
        size, end, entries = os.fstat(handle).st_size, 0, list[bytes]()
        for record in records(handle, size):
            end = record.end
            if record.entry is None:
                self.damages += (f"a report in {path} is damaged, and left out",)
            else:
                entries.append(record.entry)
        if end < size:
            self.damages += (f"the last {size - end} bytes of {path} are not a whole report, and were cut off",)
            os.ftruncate(handle, end)
        self._ends[bucket] = end
        return entries

    def _append(self, bucket: int, at: int, entry: LogEntry, payload: Bytes) -> int:
        if bucket not in self._handles:
            self._handles[bucket] = os.open(_path(self.folder, bucket), os.O_RDWR | os.O_CREAT, 0o600)
            self._folder_unsynced = True
        entry_data = entry_to_bytes(entry)
        if self._cipher is not None:
            payload = self._cipher.encrypt(payload)
        for piece in (record_head(bucket, entry_data, payload) + entry_data, payload):
            at = write_at(self._handles[bucket], piece, at)
        return at

    def _remove_discarded(self) -> None:
        """Remove the files of buckets that were discarded."""
        with self._list_lock:
            discarded, self._discarded = self._discarded, set()
            self._waiting = [item for item in self._waiting if item[0] not in discarded]
        for bucket in discarded:
            self._ends.pop(bucket, None)
            handle = self._handles.pop(bucket, None)
            if handle is not None:
                os.close(handle)
            _path(self.folder, bucket).unlink(missing_ok=True)


def read_spool(folder: Path, bucket: int, cipher: SumCipher | None = None) -> list[tuple[LogEntry, bytes]]:
    """The whole reports of a bucket in a spool, also in that of another process."""
    try:
        handle = os.open(_path(folder, bucket), os.O_RDONLY)
    except FileNotFoundError:
        return []
    try:
        limit = os.fstat(handle).st_size
        whole = [(entry_from_bytes(r.entry), r.payload) for r in records(handle, limit) if r.entry is not None]
        return whole if cipher is None else [(entry, cipher.decrypt(payload)) for entry, payload in whole]
    finally:
        os.close(handle)


def _path(folder: Path, bucket: int) -> Path:
    return folder / f"{bucket}{_SUFFIX}"


def _buckets(folder: Path) -> list[int]:
    return sorted(int(p.name.removesuffix(_SUFFIX)) for p in folder.glob(f"*{_SUFFIX}") if p.stem.isdigit())
