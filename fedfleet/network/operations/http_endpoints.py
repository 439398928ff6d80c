"""Whether a server lives and can take devices, and a small HTTP server that tells: /metrics, /healthz and /readyz.

The HTTP server runs in a thread of its own: a stuck server loop can still be found out. It answers GET and HEAD for those three
paths and nothing else, repeats nothing of what it was sent, reads at most 8 KiB for at most five seconds, and keeps at most 32
connections. It has no encryption: by default it listens on the loopback, and elsewhere only if it is told to. It tells no secret,
and what the run is called and how well it learns only to a caller that shows the status token."""

from __future__ import annotations

import asyncio
import hmac
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from fedfleet.core.errors import BadInput
from fedfleet.network.operations.metrics import CONTENT_TYPE, Figures, anonymous, exposition
from fedfleet.network.protocol.frames import split_address

STUCK_SECONDS = 5.0  # a loop that has not turned for so long is stuck


@dataclass(slots=True)
class HealthBoard:
    """What the server loop last said of itself. It writes whole values, another thread reads them."""

    figures: Figures
    turned_at: float = field(default_factory=time.monotonic)  # when the loop last turned
    listening: bool = False


def mark_turn(board: HealthBoard, figures: Figures | None = None) -> None:
    """The loop turned; with new figures, if it has some. To be called at least once a second."""
    if figures is not None:
        board.figures = figures
    board.turned_at = time.monotonic()


def dead_reason(board: HealthBoard, now: float) -> str:
    """Why the process should be killed and started again; empty: it lives."""
    return "the loop has not turned for some seconds" if now - board.turned_at > STUCK_SECONDS else ""


def unready_reason(board: HealthBoard, now: float, *, writable: bool) -> str:
    """Why no device should be sent here; empty: it is ready."""
    figures = board.figures
    if dead := dead_reason(board, now):
        return dead
    if figures.draining:
        return "it is stopping"
    if not board.listening:
        return "it does not listen yet"
    if figures.transmitters_up < figures.transmitters:
        return f"{figures.transmitters_up} of {figures.transmitters} frontends are up"
    return "" if writable else "its folder cannot be written"


def disk_check(folder: Path, *, every: float = 2.0) -> Callable[[], bool]:
    """A function that says whether a folder can be written, by writing; asked more often than `every` seconds, it remembers."""
    last: tuple[float, bool] | None = None

    def writable() -> bool:
        nonlocal last
        now = time.monotonic()
        if last is None or now - last[0] >= every:
            last = now, _can_write(folder / ".writable")
        return last[1]

    return writable


def _can_write(path: Path) -> bool:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            wrote = os.write(handle, bytes(4096)) == 4096
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError:
        wrote = False
    with suppress(OSError):
        path.unlink(missing_ok=True)
    return wrote


MOST_BYTES = 8192
MOST_CONNECTIONS = 32
REQUEST_SECONDS = 5.0
_PLAIN = "text/plain; charset=utf-8"
_STATUS_TEXTS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 500: "Internal Server Error",
          503: "Service Unavailable"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Page:
    """An answer."""

    code: int
    body: bytes
    kind: str = _PLAIN


Pages = Mapping[str, Callable[[bool], Page]]  # of whether the operator asks


def pages_of(board: HealthBoard, folder: Path) -> Pages:
    """The three pages of a server that writes to this folder."""
    writable = disk_check(folder)

    def metrics(for_operator: bool) -> Page:
        return Page(200, exposition(board.figures if for_operator else anonymous(board.figures)), CONTENT_TYPE)

    def healthz(for_operator: bool) -> Page:
        del for_operator
        return _verdict(dead_reason(board, time.monotonic()))

    def readyz(for_operator: bool) -> Page:
        del for_operator
        return _verdict(unready_reason(board, time.monotonic(), writable=writable()))

    return {"/metrics": metrics, "/healthz": healthz, "/readyz": readyz}


class Endpoints:
    """The HTTP server; `address` is where it listens, with the port that it got."""

    def __init__(self, address: str, pages: Pages, token: str = "") -> None:
        """`token` is what the operator shows; empty: nobody can."""
        self._pages, self._token = pages, token
        self._open: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
        self._loop = asyncio.new_event_loop()  # of the thread below, never of whoever calls
        host, port = split_address(address, any_port=True)
        try:
            family, _, _, _, place = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
            self._socket = socket.create_server(place[:2], family=family, backlog=MOST_CONNECTIONS)  # type: ignore[arg-type]
        except OSError as error:
            self._loop.close()
            reason = error.strerror or str(error)
            raise BadInput(f"metrics: cannot listen at {address}: {reason}; give another --metrics HOST:PORT") from None
        self.address = f"{host}:{self._socket.getsockname()[1]}"
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name="endpoints", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening and hang up."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def _serve(self) -> None:
        try:
            self._loop.run_until_complete(self._serve_until_stop())
        finally:
            self._loop.close()

    async def _serve_until_stop(self) -> None:
        server = await asyncio.start_server(self._accept, sock=self._socket, limit=MOST_BYTES)
        await self._stop.wait()
        # Nobody else is taken. The server is closed last: a connection that it is just taking would stay open for ever.
        self._loop.remove_reader(self._socket)
        await self._hang_up()
        server.close()

    async def _hang_up(self) -> None:
        """Also on those whose connections were just being taken: these are tasks of the loop, and known when they end."""
        until = self._loop.time() + 1.0
        while (others := asyncio.all_tasks() - {asyncio.current_task()}) and self._loop.time() < until:
            for writer in self._open:
                writer.transport.abort()
            await asyncio.wait(others, timeout=0.05)
        await asyncio.sleep(0.01)  # sockets are closed one turn of the loop after their connections were given up

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= MOST_CONNECTIONS:
            writer.transport.abort()
        else:
            self._open[writer] = self._loop.create_task(self._handle(reader, writer))

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            # What goes wrong is the other side's: it hung up, or took too long.
            with suppress(OSError, asyncio.TimeoutError):
                await asyncio.wait_for(self._exchange(reader, writer), REQUEST_SECONDS)
        finally:
            del self._open[writer]
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            head = b""
        except asyncio.IncompleteReadError:
            return
        writer.write(answer_request(head, self._pages, self._token))
        await writer.drain()
        writer.write_eof()
        await reader.read(MOST_BYTES)  # until the other side has read it and closes: else a reset could overtake the answer


def answer_request(head: bytes, pages: Pages, token: str = "") -> bytes:
    """The bytes of the answer to a request; of what stands in the request nothing is in it.

    >>> answer_request(b"POST /metrics HTTP/1.1\\r\\n\\r\\n", {"/metrics": lambda for_operator: Page(200, b"")}).split(b"\\r\\n")[0]
    b'HTTP/1.1 405 Method Not Allowed'
    """
    words = head.split(b"\r\n", 1)[0].split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        return _encode_page(Page(400, b"this is not a request of HTTP\n"))
    method, target = words[0], words[1].split(b"?", 1)[0].decode("ascii", "replace")
    page = pages.get(target)
    if page is None:
        return _encode_page(Page(404, b"there is /metrics, /healthz and /readyz\n"))
    if method not in (b"GET", b"HEAD"):
        return _encode_page(Page(405, b"GET or HEAD, please\n"))
    try:
        result = page(bool(token) and hmac.compare_digest(_bearer(head), token.encode()))
    except Exception as error:  # whatever it is, the server goes on
        result = Page(500, f"this page failed ({type(error).__name__})\n".encode())
    return _encode_page(result, body=method == b"GET")


def _bearer(head: bytes) -> bytes:
    """What a caller shows as `Authorization: Bearer ..`; empty: nothing."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        scheme, _, shown = value.strip().partition(b" ")
        if name.lower() == b"authorization" and scheme.lower() == b"bearer":
            return shown.strip()
    return b""


def _encode_page(page: Page, *, body: bool = True) -> bytes:
    lines = [
        f"HTTP/1.1 {page.code} {_STATUS_TEXTS[page.code]}",
        f"Content-Type: {page.kind}",
        f"Content-Length: {len(page.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
        *(["Allow: GET, HEAD"] if page.code == 405 else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + (page.body if body else b"")


def _verdict(why: str) -> Page:
    return Page(503, f"no: {why}\n".encode()) if why else Page(200, b"ok\n")
