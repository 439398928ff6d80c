"""A request of HTTP and its answer, whichever version it came by: what routes work with, and the limits that all versions share."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from fedfleet.network.frontend.http_answers import error_body
from fedfleet.network.frontend.http_body import RequestBody
from fedfleet.network.frontend.refusals import CallRefused, Malformed, RateLimited

MAX_HEAD_BYTES = 1 << 15  # of the first line and all headers
IDLE_SECONDS, HEAD_SECONDS, STALLED_SECONDS = 75.0, 10.0, 30.0
MIN_RATE = 4096  # bytes a second of a body or an answer, beyond the seconds above
_PAUSE_BYTES = 1 << 18  # of a body that nobody has taken yet: then no more are received
# Headers that mean something here; none may come twice.
KNOWN = frozenset({
    b"authorization", b"content-length", b"content-range", b"content-type", b"expect", b"fedfleet-report", b"host", b"origin",
    b"range", b"transfer-encoding",
})  # fmt: skip


class BadRequest(Malformed):
    """A request that cannot be read in exactly one way; `status` is that of HTTP."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


class TooLarge(Malformed):
    """A body that is longer than any of its kind."""

    status = 413


class Overloaded(CallRefused):
    """The server can take no more for now."""

    code = "UNAVAILABLE"


class Door(Protocol):
    """What a connection needs of the door."""

    closing: bool
    date: bytes
    connections: set[Any]

    def add(self, connection: Any) -> None:
        """A connection stands."""
        ...

    def is_full(self) -> bool:
        """Are there as many connections as there may be?"""
        ...

    def hold(self, nbytes: int) -> bool:
        """So many more bytes of bodies are in memory (or fewer); False: that is too much."""
        ...

    async def handle(self, exchange: Exchange) -> None:
        """Answer a request, or raise `CallRefused`."""
        ...


class Line(Protocol):
    """What an exchange needs of its connection."""

    door: Door
    peer: str

    def pause_reading(self) -> None:
        """Receive no more of the body."""
        ...

    def resume_reading(self) -> None:
        """Receive again."""
        ...

    def send_continue(self) -> None:
        """The body may come."""
        ...

    def expect_body(self, exchange: Exchange) -> None:
        """The body must be here soon."""
        ...

    def expect_nothing(self, exchange: Exchange) -> None:
        """It is here."""
        ...


class Exchange:
    """One request and its answer; a `Call` of the service."""

    __slots__ = (
        "_callbacks",
        "_connection",
        "_reading",
        "answered",
        "body",
        "continues",
        "deadline",
        "extra",
        "headers",
        "method",
        "path",
        "query",
        "task",
    )  # fmt: skip

    def __init__(self, connection: Line, method: str, target: str, headers: dict[bytes, bytes]) -> None:
        self.method, self.headers, self._connection = method, headers, connection
        self.path, _, self.query = target.partition("?")
        self.body = RequestBody(int(headers.get(b"content-length", b"0")))
        self.continues, self.deadline = b"expect" in headers, math.inf
        self.extra = b""  # lines that every answer to this request gets
        self.answered, self._reading = False, False
        self._callbacks: list[Callable[[Any], None]] = []
        self.task: asyncio.Task[None] | None = None

    def header(self, name: bytes) -> str:
        """The value of a header; empty: it is not there."""
        return self.headers.get(name, b"").decode("latin-1")

    # ---- as a call of the service ------------------------------------------------------------------------------------

    def peer(self) -> str:
        """Where it comes from, as gRPC writes addresses."""
        return self._connection.peer

    def add_done_callback(self, callback: Callable[[Any], None], /) -> None:
        """Call this when the answer has left this process, or will never do so."""
        self._callbacks.append(callback)

    # ---- the body ----------------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """A piece of the body came."""
        body, connection = self.body, self._connection
        body.add(data)
        if not connection.door.hold(len(data)):
            body.fail(RateLimited("the server is receiving too many bytes; try again in 1 s"))
        if body.held > _PAUSE_BYTES and not self._reading:
            connection.pause_reading()

    async def _more(self) -> None:
        """Until more of the body is here, or all, or it failed."""
        if self.continues:
            self.continues = False
            self._connection.send_continue()
        await self.body.change()

    async def read(self, most: int) -> bytes:
        """The whole body, of `most` bytes at most."""
        body = self.body
        if body.length > most:
            raise TooLarge(f"the body has {body.length} bytes, and {most} is the most here")
        if not body.is_complete:
            self._reading = True
            self._connection.expect_body(self)
            while not body.is_complete and body.failure is None:
                await self._more()
            self._connection.expect_nothing(self)
        if body.failure is not None:
            raise body.failure
        return body.content()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes; whoever takes it looks after its pace."""
        body = self.body
        while True:
            while (data := body.take()) is not None:
                self._connection.door.hold(-len(data))
                yield data
            if body.failure is not None:
                raise body.failure
            if body.is_complete:
                return
            self._connection.resume_reading()
            await self._more()

    # ---- the answer, by the version of HTTP --------------------------------------------------------------------------

    async def reply(self, status: int, body: bytes, kind: bytes, extra: bytes = b"") -> None:
        """Send the whole answer; it has left this process when this returns. `extra` are whole lines."""
        raise NotImplementedError

    def send_head(self, status: int, nbytes: int, kind: bytes, extra: bytes = b"", body: bytes = b"") -> None:
        """Send the head of an answer of so many bytes, which follow."""
        raise NotImplementedError

    async def write(self, data: bytes) -> None:
        """Send a piece of the body."""
        raise NotImplementedError

    def end(self) -> None:
        """It is over, in whichever way."""
        if self.body.held:
            self._connection.door.hold(-self.body.clear())
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)


def head_refusal(headers: dict[bytes, bytes], target: bytes) -> BadRequest | None:
    """What is wrong with the head of a request, in any version."""
    length = headers.get(b"content-length", b"0")
    if b"transfer-encoding" in headers:
        return BadRequest("a body needs its length in Content-Length; Transfer-Encoding is not taken", 411)
    if not length.isdigit() or len(length) > 15:
        return BadRequest("Content-Length is not a number of bytes")
    if not target.startswith(b"/"):
        return BadRequest("the target of the request is not a path")
    if headers.get(b"expect", b"100-continue").lower() != b"100-continue":
        return BadRequest("only 100-continue can be expected here", 417)
    return None


async def serve_exchange(door: Door, exchange: Exchange, loop: asyncio.AbstractEventLoop) -> bool:
    """Answer a request; True: the answer broke off after its head, which only the end of the line can say."""
    try:
        await door.handle(exchange)
    except CallRefused as error:
        refusal = error
    except ConnectionError:  # it hung up while it was answered
        raise
    except Exception as error:
        loop.call_exception_handler({"message": "a handler of a request failed", "exception": error})
        refusal = CallRefused(f"the server failed ({type(error).__name__})")
        refusal.code = "UNKNOWN"
    else:
        return False
    if exchange.answered:
        return True
    status, kind, body, extra = error_body(refusal)
    await exchange.reply(status, body, kind, extra)
    return False
