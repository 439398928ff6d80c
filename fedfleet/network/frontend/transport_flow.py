"""What a transport is told, and tells, about pace: whether it is read, and whether all that was written has left."""

from __future__ import annotations

import asyncio
from typing import Any


class TransportFlow:
    """Both directions of one transport, which `start` brings."""

    __slots__ = ("_flushed", "_read_paused", "_transport", "write_paused")

    def __init__(self) -> None:
        self._transport: Any = None
        self._flushed: asyncio.Future[None] | None = None
        self._read_paused = False
        self.write_paused = False

    def start(self, transport: Any) -> None:
        """A connection stands; what is written to it counts until it has left."""
        self._transport = transport
        transport.set_write_buffer_limits(high=1, low=0)

    def stop(self) -> None:
        """The connection is gone: what has not left will never leave."""
        if self._flushed is not None and not self._flushed.done():
            self._flushed.set_exception(ConnectionResetError("the other side hung up"))

    def pause_writing(self) -> None:
        """What was written does not leave at once."""
        self.write_paused = True

    def resume_writing(self) -> None:
        """All that was written has left."""
        self.write_paused = False
        if self._flushed is not None and not self._flushed.done():
            self._flushed.set_result(None)

    async def flush(self) -> None:
        """Until all that was written has left; `ConnectionResetError` if it never will."""
        self._flushed = asyncio.get_running_loop().create_future()
        try:
            await self._flushed
        finally:
            self._flushed = None

    def pause_reading(self) -> None:
        """Receive no more."""
        if not self._read_paused and not self._transport.is_closing():
            self._read_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Receive again."""
        if self._read_paused:
            self._read_paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()
