"""The HTTP door of a frontend: it listens beside gRPC, with the same certificates, before the same service."""

from __future__ import annotations

import asyncio
import ssl
import time
from asyncio.sslproto import SSLProtocol
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from email.utils import formatdate
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedfleet.core.errors import BadInput
from fedfleet.network.frontend.http_connection import HttpConnection
from fedfleet.network.frontend.http_routes import HttpRoutes
from fedfleet.network.frontend.service import FleetService
from fedfleet.network.protocol.frames import split_address
from fedfleet.network.security.tls import FileWatch, ServerFiles, server_context

_LOOK_SECONDS = 1.0  # between two looks for connections that took too long
_MORE_CONNECTIONS = 1024  # than calls that may wait on the line
_HANDSHAKE_SECONDS = 10.0
_GRACE_SECONDS = 1.0  # for what is being answered when the door closes
_BACKLOG = 1024
# Of each connection with TLS, for what comes: asyncio's own 256 KiB would be most of the memory of a call that waits.
_TLS_BUFFER_BYTES = 1 << 16


@asynccontextmanager
async def serve_http(service: FleetService) -> AsyncIterator[None]:
    """Answer devices over HTTP; on the way out what is being answered gets a moment to end."""
    door = HttpDoor(service)
    await door.open()
    watcher = asyncio.create_task(door.watch())
    watcher.add_done_callback(service.frontend.on_task_done)
    try:
        yield
    finally:
        watcher.cancel()
        await door.close()


class HttpDoor:
    """The listening socket and its connections. A class, since connections share its limits."""

    def __init__(self, service: FleetService) -> None:
        config = service.frontend.config
        self._frontend, self._address = service.frontend, config.http
        self.handle = HttpRoutes(service).handle
        self.connections: set[Any] = set()  # of any version
        self.closing, self.date = False, _date_line()
        self._most_connections = config.hold + _MORE_CONNECTIONS
        self.held_bytes, self._most_held_bytes = 0, config.in_flight_bytes
        self._files = ServerFiles(**{name: Path(path) for name, path in config.tls.items()}) if config.tls else None
        self._watch = None if self._files is None else FileWatch(self._files)
        self._server: asyncio.Server | None = None
        self._handshakes: deque[float] = deque()  # when those began that have not ended, or failed a moment ago
        self.renewals = 0  # of the certificates

    def is_full(self) -> bool:
        """Are there more connections than there may be?"""
        return len(self.connections) > self._most_connections

    def hold(self, nbytes: int) -> bool:
        """So many more bytes of bodies are in memory; False: that is too much."""
        self.held_bytes += nbytes
        return self.held_bytes <= self._most_held_bytes

    async def open(self) -> None:
        """Listen; refused if nobody can."""
        host, port = split_address(self._address)
        SSLProtocol.max_size = _TLS_BUFFER_BYTES
        context = None if self._files is None else server_context(self._files, _versions())
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._connection, host.strip("[]"), port, reuse_port=True, backlog=_BACKLOG, ssl=context,
                ssl_handshake_timeout=None if context is None else _HANDSHAKE_SECONDS,
            )  # fmt: skip
        except OSError as error:
            raise BadInput(
                f"cannot listen on {self._address} ({error.strerror}); give another address with --http HOST:PORT"
            ) from None

    def _connection(self) -> HttpConnection:
        """For somebody who connects; a handshake of TLS that does not end takes a place too, until its time is over."""
        if self._files is not None:
            now = asyncio.get_running_loop().time()
            while self._handshakes and self._handshakes[0] < now - _HANDSHAKE_SECONDS:
                self._handshakes.popleft()
            if len(self.connections) + len(self._handshakes) > self._most_connections:
                raise ConnectionRefusedError  # asyncio lets go of the socket
            self._handshakes.append(now)
        return HttpConnection(self)

    def add(self, connection: Any) -> None:
        """A connection stands."""
        self.connections.add(connection)
        if self._handshakes:
            self._handshakes.popleft()

    async def watch(self) -> None:
        """End connections that take too long, and take up certificates that were renewed in place."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self.date, now = _date_line(), loop.time()
            for connection in [c for c in self.connections if c.deadline < now]:
                connection.at_deadline()
            if self._watch is not None and self._watch.has_changed():
                earlier = self._server
                with suppress(BadInput, ssl.SSLError, OSError):  # half of the files is written: look again
                    await self.open()
                    self._watch.accept()
                    self.renewals += 1
                    if earlier is not None:
                        earlier.close()

    async def close(self) -> None:
        """Stop listening; what is being answered gets a moment."""
        self.closing = True
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.hang_up()
        until = time.monotonic() + _GRACE_SECONDS
        while self.connections and time.monotonic() < until:
            await asyncio.sleep(0.01)
        for connection in list(self.connections):
            connection.abort()


def _versions() -> tuple[str, ...]:
    """What clients may choose from, the cheapest first: HTTP/2, where its library is installed, for those who want nothing else."""
    return ("http/1.1", "h2") if find_spec("h2") is not None else ("http/1.1",)


def _date_line() -> bytes:
    return f"Date: {formatdate(usegmt=True)}\r\n".encode()
