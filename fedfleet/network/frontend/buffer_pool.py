"""Memory that is used again: rooms for reports that come in chunks, and the chunks of models that go out.

Fresh memory costs more than what is written to it: a page that is touched for the first time takes the system a microsecond or
more, and a report of 13 MB has three thousand of them.
"""

from __future__ import annotations

from fedfleet.network.protocol.frames import CHUNK

_MOST_MODELS = 2  # whose chunks are kept: the one that is handed out, and the one before


class Rooms:
    """Rooms of so many bytes in all, to be taken and given back."""

    def __init__(self, most_bytes: int) -> None:
        self._most, self._spare, self.nbytes = most_bytes, list[bytearray](), 0

    def take(self, nbytes: int) -> bytearray:
        """A room of this size, with anything in it."""
        for i, room in enumerate(self._spare):
            if len(room) == nbytes:
                del self._spare[i]
                self.nbytes -= nbytes
                return room
        return bytearray(nbytes)

    def give_back(self, room: bytearray) -> None:
        """Nobody needs it any more; one of which somebody still has a view is left alone."""
        try:
            room.append(0)  # refused while there is a view of it
            del room[-1]
        except BufferError:
            return
        while self._spare and self.nbytes + len(room) > self._most:
            self.nbytes -= len(self._spare.pop(0))  # of a size that is not asked for any more, perhaps
        if len(room) <= self._most:
            self._spare.append(room)
            self.nbytes += len(room)


class Chunks:
    """The chunks of models as messages carry them, made once for all devices; only of models of up to `most_bytes`."""

    def __init__(self, most_bytes: int) -> None:
        self._most, self._known = most_bytes, dict[str, dict[int, bytes]]()

    def at(self, name: str, data: memoryview, offset: int) -> bytes:
        """The chunk of the model of this name, which lies at `data`, from this offset on."""
        if len(data) > self._most or offset % CHUNK:
            return bytes(data[offset : offset + CHUNK])
        if name not in self._known:
            while len(self._known) >= _MOST_MODELS:
                del self._known[next(iter(self._known))]
            self._known[name] = {}
        chunks = self._known[name]
        if offset not in chunks:
            chunks[offset] = bytes(data[offset : offset + CHUNK])
        return chunks[offset]
