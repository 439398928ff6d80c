"""Memory that is used again: rooms for reports that come in chunks, and the chunks of models that go out.

Fresh memory costs more than what is written to it: a page that is touched for the first time takes the system a microsecond or
more, and a report of 13 MB has three thousand of them.
"""

from __future__ import annotations

from fedfleet.network.protocol.frames import CHUNK

_MAX_MODELS = 2  # whose chunks are kept: the one that is handed out, and the one before


class BufferPool:
    """Rooms of so many bytes in all, to be taken and given back."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self._spare, self.nbytes = max_bytes, list[bytearray](), 0

    def acquire(self, nbytes: int) -> bytearray:
        """A room of this size, with anything in it."""
        for i, buffer in enumerate(self._spare):
            if len(buffer) == nbytes:
                del self._spare[i]
                self.nbytes -= nbytes
                return buffer
        return bytearray(nbytes)

    def release(self, buffer: bytearray) -> None:
        """Nobody needs it any more; one of which somebody still has a view is left alone."""
        try:
            buffer.append(0)  # refused while there is a view of it
            del buffer[-1]
        except BufferError:
            return
        while self._spare and self.nbytes + len(buffer) > self._max_bytes:
            self.nbytes -= len(self._spare.pop(0))  # of a size that is not asked for any more, perhaps
        if len(buffer) <= self._max_bytes:
            self._spare.append(buffer)
            self.nbytes += len(buffer)


class ChunkCache:
    """The chunks of models as messages carry them, made once for all devices; only of models of up to `most_bytes`."""

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
