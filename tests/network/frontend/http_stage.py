"""A frontend without a server process, with its HTTP door open, and a client that writes what a test wants, byte by byte."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from fedfleet.network.frontend import http_door
from fedfleet.network.frontend.http_door import HttpDoor
from tests.network.stage import Stage, perform

SECONDS = 60.0  # that a test waits for anything


class Reply(NamedTuple):
    """An answer: status, headers in lower case, body."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of an error."""
        return self.json()["error"]["code"]


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        """Write these bytes; a server that hung up is none's fault here."""
        with suppress(ConnectionError):
            self.writer.write(data)
            await self.writer.drain()

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Reply:
        """A proper request, and its answer."""
        lines = [f"{method} {path} HTTP/1.1", "Host: here:1", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.send("\r\n".join([*lines, "", ""]).encode() + body)
        return await self.reply()

    async def reply(self) -> Reply:
        """The next answer."""
        async with asyncio.timeout(SECONDS):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return Reply(int(head[0].split(" ")[1]), headers, body)

    async def rest(self) -> bytes:
        """All that comes until the server hangs up."""
        data = b""
        async with asyncio.timeout(SECONDS):
            with suppress(ConnectionError):
                while piece := await self.reader.read(1 << 16):
                    data += piece
        return data

    def close(self) -> None:
        """Hang up."""
        self.writer.close()


class HttpStage:
    """A stage with an open door."""

    def __init__(self, stage: Stage, door: HttpDoor, port: int) -> None:
        self.stage, self.door, self._port, self._clients = stage, door, port, list[Client]()

    async def connect(self, tls: Any = None) -> Client:
        """A new connection."""
        client = Client(
            *await asyncio.open_connection("127.0.0.1", self._port, ssl=tls, server_hostname="localhost" if tls else None)
        )
        self._clients.append(client)
        return client

    def bearer(self, client: int, generation: int = 1) -> str:
        """What this client shows."""
        return f"Bearer {client}:{self.stage.caller(client, generation).secret.hex()}"

    async def raw(self, data: bytes) -> bytes:
        """All that the server answers to these bytes, until it hangs up."""
        client = await self.connect()
        await self.send_all(client, data)
        return await client.rest()

    async def send_all(self, client: Client, data: bytes) -> None:
        """Write, and say that nothing more will come where the server would wait for it."""
        await client.send(data)

    def close(self) -> None:
        """Hang up everywhere."""
        for client in self._clients:
            client.close()


def free_port() -> int:
    """A port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def perform_http(folder: Path, act: Callable[[HttpStage], Coroutine[Any, Any, None]], **changes: Any) -> None:
    """Let an act happen at an open door; at the end nothing of it is left in memory."""
    port = free_port()

    async def acted(stage: Stage) -> None:
        door = HttpDoor(stage.handlers)
        await door.open()
        watcher = asyncio.create_task(door.watch())
        http = HttpStage(stage, door, port)
        try:
            await act(http)
            http.close()
            async with asyncio.timeout(SECONDS):
                while door.connections:
                    await asyncio.sleep(0.005)
            assert door.held_bytes == 0
            assert stage.transmitter.state.waiters == {} and stage.transmitter.limiter.bytes_in_flight == 0
            assert stage.transmitter.downloads.nbytes == 0
        finally:
            watcher.cancel()
            await door.close()

    perform(folder, acted, **{"http": f"127.0.0.1:{port}", **changes})


def hurry(monkeypatch: Any) -> None:
    """Let the door look for slow connections all the time."""
    monkeypatch.setattr(http_door, "_LOOK_SECONDS", 0.01)
