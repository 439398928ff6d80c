"""Models on their way to devices: so many bytes at once, and who comes next waits in line.

Without it the beginning of a round would answer every call that was held at once, each with a copy of the model of its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any


class DownloadGate:
    """A gate of `most` bytes; one that is alone may pass however large it is."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.nbytes = 0

    async def acquire(self, nbytes: int, call: Any) -> None:
        """Wait for room for an answer of so many bytes, which is given back when the call ends (`add_done_callback`)."""
        reserved = [0]

        def release(*_: object) -> None:
            self._release(reserved[0])
            reserved[0] = -1

        call.add_done_callback(release)
        if self._queue or not self._fits(nbytes):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._queue.append((nbytes, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._release(nbytes)
                raise
        else:
            self.nbytes += nbytes
        if reserved[0] < 0:  # the call has ended while it stood in line
            self._release(nbytes)
        else:
            reserved[0] = nbytes

    def _fits(self, nbytes: int) -> bool:
        return not self.nbytes or self.nbytes + nbytes <= self._max_bytes

    def _release(self, nbytes: int) -> None:
        self.nbytes -= max(nbytes, 0)
        while self._queue and (self._queue[0][1].done() or self._fits(self._queue[0][0])):
            wanted, turn = self._queue.popleft()
            if not turn.done():
                self.nbytes += wanted
                turn.set_result(None)
