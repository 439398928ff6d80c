"""Models on their way to devices: so many bytes at once, and who comes next waits in line.

Without it the beginning of a round would answer every call that was held at once, each with a copy of the model of its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any


class Outgoing:
    """A gate of `most` bytes; one that is alone may pass however large it is."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.nbytes = 0

    async def enter(self, nbytes: int, call: Any) -> None:
        """Wait for room for an answer of so many bytes, which is given back when the call ends (`add_done_callback`)."""
        held = [0]

        def leave(*_: object) -> None:
            self._give_back(held[0])
            held[0] = -1

        call.add_done_callback(leave)
        if self._line or not self._fits(nbytes):
            place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._line.append((nbytes, place))
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    self._give_back(nbytes)
                raise
        else:
            self.nbytes += nbytes
        if held[0] < 0:  # the call has ended while it stood in line
            self._give_back(nbytes)
        else:
            held[0] = nbytes

    def _fits(self, nbytes: int) -> bool:
        return not self.nbytes or self.nbytes + nbytes <= self._most

    def _give_back(self, nbytes: int) -> None:
        self.nbytes -= max(nbytes, 0)
        while self._line and (self._line[0][1].done() or self._fits(self._line[0][0])):
            wanted, place = self._line.popleft()
            if not place.done():
                self.nbytes += wanted
                place.set_result(None)
