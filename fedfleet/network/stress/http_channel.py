"""A load generator's calls over HTTP, with the interface of a channel of gRPC; a connection serves one call at a time."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from fedfleet.network.protocol.frames import CHUNK

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_HEAD_BYTES = 1 << 16
_CODES = {429: grpc.StatusCode.RESOURCE_EXHAUSTED, 401: grpc.StatusCode.UNAUTHENTICATED, 404: grpc.StatusCode.NOT_FOUND}
_READY_SECONDS = 0.05  # between two tries to reach a server that starts


class HttpChannel:
    """All connections of one channel to a server."""

    def __init__(self, address: str, context: ssl.SSLContext | None = None) -> None:
        host, _, port = address.rpartition(":")
        self._host, self._port, self._context = host, int(port), context
        self._idle: list[_Streams] = []
        self._open: set[asyncio.StreamWriter] = set()

    async def channel_ready(self) -> None:
        """Wait until the server takes connections."""
        while True:
            try:
                self._idle.append(await self._connect())
            except OSError:
                await asyncio.sleep(_READY_SECONDS)
            else:
                return

    async def close(self) -> None:
        """Hang up."""
        for writer in self._open:
            writer.close()

    def unary_unary(self, path: str) -> Callable[[bytes], Awaitable[bytes]]:
        """A call with one message each way."""
        method = path.rpartition("/")[2]

        async def call(data: bytes) -> bytes:
            return b"".join([chunk async for chunk in self._chunks(method, data)])

        return call

    def unary_stream(self, path: str) -> Callable[[bytes], AsyncIterator[bytes]]:
        """A call whose answer comes in chunks."""
        method = path.rpartition("/")[2]
        return lambda data: self._chunks(method, data)

    def stream_unary(self, path: str) -> Callable[[AsyncIterator[bytes]], Awaitable[bytes]]:
        """A call whose message goes in pieces; they are gathered first, since their length comes first."""
        call = self.unary_unary(path)

        async def stream(pieces: AsyncIterator[bytes]) -> bytes:
            return await call(b"".join([piece async for piece in pieces]))

        return stream

    async def _connect(self) -> _Streams:
        streams = await asyncio.open_connection(self._host, self._port, ssl=self._context, limit=_HEAD_BYTES)
        self._open.add(streams[1])
        return streams

    async def _chunks(self, method: str, data: bytes) -> AsyncIterator[bytes]:
        """The chunks of an answer; a call that fails is an error of gRPC, which generators count."""
        streams: _Streams | None = None
        try:
            streams = self._idle.pop() if self._idle else await self._connect()
            reader, writer = streams
            writer.write(f"POST /v1/call/{method} HTTP/1.1\r\nHost: s\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
            head = await reader.readuntil(b"\r\n\r\n")
            status, left = int(head[9:12]), int(head[head.index(b"Content-Length: ") + 16 :].split(b"\r\n", 1)[0])
            while left:
                chunk = await reader.readexactly(left) if left <= CHUNK else await reader.read(CHUNK)
                if not chunk:
                    raise ConnectionError
                left -= len(chunk)
                if status == 200:
                    yield chunk
            if b"Connection: close" not in head:
                self._idle.append(streams)
                streams = None
        except (OSError, EOFError, ValueError):
            raise _error(grpc.StatusCode.UNAVAILABLE) from None
        finally:
            if streams is not None:
                self._open.discard(streams[1])
                streams[1].close()
        if status != 200:
            raise _error(_CODES.get(status, grpc.StatusCode.UNKNOWN))


def _error(code: grpc.StatusCode) -> grpc.aio.AioRpcError:
    nothing: Any = grpc.aio.Metadata()
    return grpc.aio.AioRpcError(code, nothing, nothing)
