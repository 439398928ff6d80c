"""The body of a request while it comes: its pieces, their bytes, and whoever waits for more."""

from __future__ import annotations

import asyncio

from fedfleet.network.frontend.refusals import CallRefused


class RequestBody:
    """Pieces that came and were not taken yet. It knows no connection: an exchange feeds it, and sees to its pace."""

    __slots__ = ("_pieces", "_waiter", "failure", "held", "is_complete", "length")

    def __init__(self, length: int) -> None:
        self.length = length
        self.held = 0  # bytes that are here
        self.is_complete = False
        self.failure: CallRefused | None = None
        self._pieces: list[bytes] = []
        self._waiter: asyncio.Future[None] | None = None

    def add(self, data: bytes) -> None:
        """A piece came."""
        self._pieces.append(data)
        self.held += len(data)
        if self._waiter is not None:
            self._wake()

    def complete(self) -> None:
        """All of it has come."""
        self.is_complete = True
        if self._waiter is not None:
            self._wake()

    def fail(self, failure: CallRefused) -> None:
        """No more of it can be taken; the first reason stays."""
        self.failure = self.failure or failure
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def change(self) -> None:
        """Until more of it is here, or all, or it failed."""
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def content(self) -> bytes:
        """All that is here, which stays here."""
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)

    def take(self) -> bytes | None:
        """The next piece, which is held no longer; None: there is none now."""
        if not self._pieces:
            return None
        data = self._pieces.pop(0)
        self.held -= len(data)
        return data

    def clear(self) -> int:
        """Drop what is here; how many bytes that were."""
        nbytes, self.held, self._pieces = self.held, 0, []
        return nbytes
