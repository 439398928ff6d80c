"""Uploads that broke in the middle: what came of them, where every transmitter of the server finds it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from fedfleet.network.frontend.buffer_pool import BufferPool
from fedfleet.network.protocol import fleet_pb2 as pb


class PartialUploads:
    """A folder with the beginnings of reports, of so many bytes in all; the oldest goes first."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder, self._max_bytes, self.buffers = folder, max_bytes, BufferPool(max_bytes)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def _path(self, task: int, crc: int, nbytes: int) -> Path:
        return self._folder / f"{task}-{crc:08x}-{nbytes}"

    def stored_bytes(self, task: int, crc: int, nbytes: int) -> int:
        """How many bytes of this report are here."""
        try:
            return min(self._path(task, crc, nbytes).stat().st_size, nbytes)
        except OSError:
            return 0

    def start_upload(self, head: pb.Report) -> tuple[bytearray, int]:
        """Room for a whole report, filled with what is here of it if it is to be resumed; and how much that is."""
        buffer = self.buffers.acquire(head.nbytes)
        if not head.offset:
            return buffer, 0
        try:
            data = self._path(head.task, head.crc32c, head.nbytes).read_bytes()[: head.nbytes]
        except OSError:
            return buffer, 0
        buffer[: len(data)] = data
        return buffer, len(data)

    def keep(self, head: pb.Report, data: memoryview) -> None:
        """The line broke: keep what came, if it is more than what is here."""
        if len(data) <= self.stored_bytes(head.task, head.crc32c, head.nbytes) or len(data) > self._max_bytes:
            return
        with suppress(OSError):
            path = self._path(head.task, head.crc32c, head.nbytes)
            draft = path.with_name(path.name + ".part")
            draft.write_bytes(data)
            draft.replace(path)
            self._make_room()

    def forget(self, head: pb.Report) -> None:
        """It came whole."""
        self._path(head.task, head.crc32c, head.nbytes).unlink(missing_ok=True)

    def _make_room(self) -> None:
        files = sorted(_files_by_age(self._folder.iterdir()))
        total = sum(size for _, size, _ in files)
        for _, size, path in files:
            if total <= self._max_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size


def _files_by_age(paths: Iterable[Path]) -> Iterable[tuple[int, int, Path]]:
    for path in paths:
        with suppress(OSError):
            stat = path.stat()
            yield stat.st_mtime_ns, stat.st_size, path
