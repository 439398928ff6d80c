"""The link between two processes of one server: messages over a socket pair, whole and in order."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Generic, TypeVar

from google.protobuf.message import Message

_LENGTH = struct.Struct("<I")
_BUFFER = 1 << 22
In = TypeVar("In", bound=Message)


class Link(asyncio.Protocol, Generic[In]):
    """One end: `heard` gets every message that comes, `lost` is called once when the other end is gone."""

    def __init__(self, kind: type[In], on_message: Callable[[In], None], on_lost: Callable[[], None]) -> None:
        self._kind, self._on_message, self._on_lost = kind, on_message, on_lost
        self._buffer = bytearray()
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asyncio calls it first."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        transport.set_write_buffer_limits(high=_BUFFER)

    def data_received(self, data: bytes) -> None:
        """Hand on every message that is whole."""
        self._buffer += data
        offset, view = 0, memoryview(self._buffer)
        messages: list[In] = []
        while len(view) - offset >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(view, offset)
            if len(view) - offset - _LENGTH.size < length:
                break
            offset += _LENGTH.size
            messages.append(self._kind.FromString(bytes(view[offset : offset + length])))
            offset += length
        view.release()
        del self._buffer[:offset]
        for message in messages:
            self._on_message(message)

    def connection_lost(self, exc: Exception | None) -> None:
        """The other process ended, or was closed."""
        del exc
        self._transport = None
        self._on_lost()

    def send(self, message: Message) -> None:
        """Say something; nothing happens if nobody is there any more."""
        if self._transport is not None and not self._transport.is_closing():
            data = message.SerializeToString()
            self._transport.write(_LENGTH.pack(len(data)) + data)

    def close(self) -> None:
        """Let go."""
        if self._transport is not None:
            self._transport.close()


async def connect_link(end: socket.socket, link: Link[In]) -> Link[In]:
    """Let a link speak over this end of a socket pair."""
    end.setblocking(False)
    await asyncio.get_running_loop().connect_accepted_socket(lambda: link, end)
    return link
