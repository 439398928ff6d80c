"""Payloads in chunks: those of large models that go out, buffers for reports that come in, uploads that broke.

Fresh memory costs more than what is written to it: a page that is touched for the first time takes the system a microsecond or
more, and a report of 13 MB has three thousand of them. So buffers and chunks are used again.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from fedfleet.core.errors import Refused
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import CHUNK
from fedfleet.network.security.sum_cipher import NONCE_BYTES, SumCipher

_MAX_MODELS = 2  # whose chunks are kept: the one that is handed out, and the one before


class ChunkCache:
    """The chunks of models as messages carry them, made once for all devices; only of models of up to `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self._chunks = max_bytes, dict[str, dict[int, bytes]]()

    def chunk_at(self, name: str, data: memoryview, offset: int) -> bytes:
        """The chunk of the model of this name, which lies at `data`, from this offset on."""
        if len(data) > self._max_bytes or offset % CHUNK:
            return bytes(data[offset : offset + CHUNK])
        if name not in self._chunks:
            while len(self._chunks) >= _MAX_MODELS:
                del self._chunks[next(iter(self._chunks))]
            self._chunks[name] = {}
        chunks = self._chunks[name]
        if offset not in chunks:
            chunks[offset] = bytes(data[offset : offset + CHUNK])
        return chunks[offset]


class BufferPool:
    """Buffers to be taken and given back: those that are in use and those that are kept have `max_bytes` in all."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self._spare, self.nbytes, self._used_bytes = max_bytes, list[bytearray](), 0, 0

    def acquire(self, nbytes: int) -> bytearray:
        """A buffer of this size, with anything in it."""
        self._used_bytes += nbytes
        for i, buffer in enumerate(self._spare):
            if len(buffer) == nbytes:
                del self._spare[i]
                self.nbytes -= nbytes
                return buffer
        return bytearray(nbytes)

    def release(self, buffer: bytearray) -> None:
        """It is not needed any more; a buffer of which there is still a view is left alone."""
        self._used_bytes -= len(buffer)
        try:
            buffer.append(0)  # refused while there is a view of it
            del buffer[-1]
        except BufferError:
            return
        room = self._max_bytes - self._used_bytes - len(buffer)
        while self._spare and self.nbytes > room:
            self.nbytes -= len(self._spare.pop(0))  # of a size that is not asked for any more, perhaps
        if self.nbytes <= room:
            self._spare.append(buffer)
            self.nbytes += len(buffer)

    def clear(self) -> None:
        """Keep none."""
        self._spare.clear()
        self.nbytes = 0


class PartialUploads:
    """The beginnings of reports, in a folder that all frontends of the server share: `max_bytes` in all; the oldest goes first.

    `in_flight_bytes` are those that buffers may take. A `cipher` encrypts what lies in the folder.
    """

    def __init__(self, folder: Path, max_bytes: int, in_flight_bytes: int, cipher: SumCipher | None = None) -> None:
        self._folder, self._max_bytes, self.buffers, self._cipher = folder, max_bytes, BufferPool(in_flight_bytes), cipher
        self._added_bytes = 0 if cipher is None else NONCE_BYTES
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def _path(self, task: int, crc: int, nbytes: int) -> Path:
        return self._folder / f"{task}-{crc:08x}-{nbytes}"

    def stored_bytes(self, task: int, crc: int, nbytes: int) -> int:
        """How many bytes of this report are here."""
        try:
            return max(0, min(self._path(task, crc, nbytes).stat().st_size - self._added_bytes, nbytes))
        except OSError:
            return 0

    def start_upload(self, head: pb.Report) -> tuple[bytearray, int]:
        """Room for a whole report, filled with what is here of it if it is to be resumed; and how much that is."""
        buffer = self.buffers.acquire(head.nbytes)
        if not head.offset:
            return buffer, 0
        try:
            data = self._path(head.task, head.crc32c, head.nbytes).read_bytes()
            data = (data if self._cipher is None else self._cipher.decrypt(data))[: head.nbytes]
        except (OSError, Refused):
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
            draft.write_bytes(data if self._cipher is None else self._cipher.encrypt(data))
            draft.replace(path)
            self._make_room()

    def forget(self, head: pb.Report) -> None:
        """It came whole."""
        self._path(head.task, head.crc32c, head.nbytes).unlink(missing_ok=True)

    def _make_room(self) -> None:
        files: list[tuple[int, int, Path]] = []
        for path in self._folder.iterdir():
            with suppress(OSError):
                files.append((path.stat().st_mtime_ns, path.stat().st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self._max_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size
