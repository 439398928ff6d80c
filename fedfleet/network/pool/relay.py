"""The relay: a port for each client, between its device and the server, with the speed, the delay and the cuts of its link.

It runs in a process of its own, so that nothing else delays its timers. Bytes are counted as they pass; headers of TCP and IP are
not, so a real link of the same rate carries some percent less.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol

from fedfleet.network.pool.link import Link
from fedfleet.network.pool.processes import die_with_parent, leave_group, parent_of_start, raise_file_limit, raise_priority

_QUEUED = 4096  # pieces on their way through a delay; beyond, the sender waits


class Clock(Protocol):
    """The time that a relay goes by."""

    def time(self) -> float:
        """Now, in seconds."""
        ...

    async def sleep_until(self, moment: float) -> None:
        """Return at this moment or soon after."""
        ...


class LoopClock:
    """The clock of the event loop."""

    def time(self) -> float:
        """Now, in seconds."""
        return asyncio.get_running_loop().time()

    async def sleep_until(self, moment: float) -> None:
        """Return at this moment or soon after; at once without a pause if it has passed."""
        pause = moment - self.time()
        if pause > 0:
            await asyncio.sleep(pause)


async def forward(
    read: Callable[[int], Awaitable[bytes]],
    write: Callable[[bytes], Awaitable[None]],
    link: Link,
    clock: Clock,
    count: Callable[[int], None],
) -> None:
    """Move bytes through one direction of a link until there are no more; b"" is written at the end."""
    queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_QUEUED)

    async def arrivals() -> None:
        while True:
            due, data = await queue.get()
            await clock.sleep_until(due)
            await write(data)
            if not data:
                return
            count(len(data))

    writer = asyncio.ensure_future(arrivals())
    try:
        data = b"first"
        while data:
            data = await read(link.piece)
            departure = link.departure(len(data), clock.time())
            await clock.sleep_until(departure)
            if writer.done():
                break
            await queue.put((departure + link.delay, data))
        await writer
    finally:
        writer.cancel()


class ClientRelay:
    """The relay of one client: its port, both directions of its link, and its open connections."""

    def __init__(self, server: tuple[str, int], up: Link, down: Link) -> None:
        self._server, self.up, self.down, self.online = server, up, down, True
        self.bytes_up = self.bytes_down = 0
        self.port = 0
        self._writers = set[asyncio.StreamWriter]()
        self._listener: asyncio.Server | None = None

    async def listen(self) -> None:
        """Take connections on a free port of this machine."""
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]

    def set_online(self, online: bool) -> None:
        """Cut the link, or mend it. Connections that are cut are gone."""
        self.online = online
        if not online:
            for writer in self._writers:
                writer.transport.abort()

    def set_link(self, up: float | None, down: float | None, delay: float) -> None:
        """Other speeds and another delay, from now on."""
        self.up.rate, self.down.rate = up, down
        self.up.delay = self.down.delay = delay

    def _count_up(self, nbytes: int) -> None:
        self.bytes_up += nbytes

    def _count_down(self, nbytes: int) -> None:
        self.bytes_down += nbytes

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mine = {writer}
        self._writers.add(writer)
        try:
            if not self.online:
                return
            server_reader, server_writer = await asyncio.open_connection(*self._server)
            mine.add(server_writer)
            self._writers.add(server_writer)
            if not self.online:
                return
            clock = LoopClock()
            directions = [
                asyncio.ensure_future(forward(reader.read, _writing(server_writer), self.up, clock, self._count_up)),
                asyncio.ensure_future(forward(server_reader.read, _writing(writer), self.down, clock, self._count_down)),
            ]
            try:
                await asyncio.wait(directions, return_when=asyncio.FIRST_EXCEPTION)
            finally:
                for direction in directions:
                    direction.cancel()
                await asyncio.gather(*directions, return_exceptions=True)
        except OSError:
            pass
        finally:
            for one in mine:
                self._writers.discard(one)
                one.transport.abort()


def _writing(writer: asyncio.StreamWriter) -> Callable[[bytes], Awaitable[None]]:
    async def write(data: bytes) -> None:
        if data:
            writer.write(data)
            await writer.drain()
        else:
            with suppress(OSError):
                writer.write_eof()

    return write


# ---- the process ----------------------------------------------------------------------------------------------------


async def _run() -> None:
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=1 << 26)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    first = json.loads(await lines.readline())
    host, port = first["server"]
    relays: list[ClientRelay] = []
    for limits in first["links"]:
        relay = ClientRelay((host, port), Link(limits["up"], limits["delay"]), Link(limits["down"], limits["delay"]))
        await relay.listen()
        relays.append(relay)
    _answer({"ports": [relay.port for relay in relays]})
    while line := await lines.readline():
        command = json.loads(line)
        if "online" in command:
            relays[command["client"]].set_online(command["online"])
        elif "client" in command:
            relays[command["client"]].set_link(command["up"], command["down"], command["delay"])
        else:
            _answer({"bytes": [[relay.bytes_up, relay.bytes_down] for relay in relays]})
    # The pool is done; what is still open belongs to devices that end too.
    os._exit(0)


def _answer(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Be the relay of a pool."""
    leave_group()
    die_with_parent(parent_of_start())
    raise_priority()
    raise_file_limit()
    asyncio.run(_run())


if __name__ == "__main__":
    main()
