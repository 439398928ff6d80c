"""One connection of HTTP/1.1: requests one after the other, each with its limits, and their answers.

The bytes are read by `httptools` (the parser of Node.js, strict). What could be read in two ways is refused before anything is done
with it: two lengths, a body in chunks, two hosts, a request before the answer to the one before. After a refusal that leaves
anything unread the connection ends: what follows on it could be taken for a request.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

import httptools

from fedfleet.network.frontend.http_answers import answer_head, error_body
from fedfleet.network.frontend.service import CallRefused, Malformed, RateLimited, TooSlow

MAX_HEAD_BYTES = 1 << 15  # of the first line and all headers
IDLE_SECONDS, HEAD_SECONDS, STALLED_SECONDS = 75.0, 10.0, 30.0
MIN_RATE = 4096  # bytes a second of a body or an answer, beyond the seconds above
_PAUSE_BYTES = 1 << 18  # of a body that nobody has taken yet: then no more are received
_JOINED_BYTES = 1 << 16  # an answer of at most so many bytes is one piece with its head
_LINGER_SECONDS, _LINGER_BYTES = 2.0, 1 << 20  # of what is still received after a refusal: else a reset could overtake the answer
_KNOWN = frozenset({
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
    connections: set[HttpConnection]

    def is_full(self) -> bool:
        """Are there as many connections as there may be?"""
        ...

    def hold(self, nbytes: int) -> bool:
        """So many more bytes of bodies are in memory (or fewer); False: that is too much."""
        ...

    async def handle(self, exchange: Exchange) -> None:
        """Answer a request, or raise `CallRefused`."""
        ...


class Exchange:
    """One request and its answer; a `Call` of the service."""

    __slots__ = ("_callbacks", "_complete", "_connection", "_failure", "_parts", "_reading", "_waiter", "answered", "continues",
                 "extra", "headers", "held", "length", "method", "path", "query", "task")  # fmt: skip

    def __init__(self, connection: HttpConnection, method: str, target: str, headers: dict[bytes, bytes]) -> None:
        self.method, self.headers, self._connection = method, headers, connection
        self.path, _, self.query = target.partition("?")
        self.length = int(headers.get(b"content-length", b"0"))
        self.continues = b"expect" in headers
        self.extra = b""  # lines that every answer to this request gets
        self.held, self.answered, self._complete, self._reading = 0, False, False, False
        self._parts: list[bytes] = []
        self._waiter: asyncio.Future[None] | None = None
        self._failure: CallRefused | None = None
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

    @property
    def is_complete(self) -> bool:
        """Has all of it come?"""
        return self._complete

    def feed(self, data: bytes) -> None:
        """A piece of the body came."""
        self._parts.append(data)
        self.held += len(data)
        connection = self._connection
        if not connection.door.hold(len(data)):
            self.fail(RateLimited("the server is receiving too many bytes; try again in 1 s"))
        if self.held > _PAUSE_BYTES and not self._reading:
            connection.pause_reading()
        self._wake()

    def feed_end(self) -> None:
        """That was all of it."""
        self._complete = True
        self._wake()

    def fail(self, failure: CallRefused) -> None:
        """No more of it can be taken."""
        self._failure = self._failure or failure
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _more(self) -> None:
        """Until more of the body is here, or all, or it failed."""
        if self.continues:
            self.continues = False
            self._connection.send_continue()
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    async def read(self, most: int) -> bytes:
        """The whole body, of `most` bytes at most."""
        if self.length > most:
            raise TooLarge(f"the body has {self.length} bytes, and {most} is the most here")
        if not self._complete:
            self._reading = True
            self._connection.expect_body(self.length)
            while not self._complete and self._failure is None:
                await self._more()
            self._connection.expect_nothing()
        if self._failure is not None:
            raise self._failure
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes; whoever takes it looks after its pace."""
        while True:
            while self._parts:
                data = self._parts.pop(0)
                self.held -= len(data)
                self._connection.door.hold(-len(data))
                yield data
            if self._failure is not None:
                raise self._failure
            if self._complete:
                return
            self._connection.resume_reading()
            await self._more()

    # ---- the answer --------------------------------------------------------------------------------------------------

    async def reply(self, status: int, body: bytes, kind: bytes, extra: bytes = b"") -> None:
        """Send the whole answer; it has left this process when this returns."""
        self.send_head(status, len(body), kind, extra, b"" if self.method == "HEAD" else body)
        await self._connection.flush(len(body))

    def send_head(self, status: int, nbytes: int, kind: bytes, extra: bytes = b"", body: bytes = b"") -> None:
        """Send the head of an answer of so many bytes, which follow."""
        self.answered, connection = True, self._connection
        head = answer_head(status, nbytes, kind, connection.door.date, self.extra + extra, close=connection.ends_after(self))
        if len(body) <= _JOINED_BYTES:
            connection.write(head + body)
        else:
            connection.write(head)
            connection.write(body)

    async def write(self, data: bytes) -> None:
        """Send a piece of the body."""
        self._connection.write(data)
        await self._connection.flush(len(data))

    def end(self) -> None:
        """It is over, in whichever way."""
        if self.held:
            self._connection.door.hold(-self.held)
            self.held = 0
        self._parts = []
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)


class HttpConnection(asyncio.Protocol):
    """One connection, as asyncio calls it. `at_deadline` is called by the door when `deadline` has passed."""

    def __init__(self, door: Door) -> None:
        self.door, self.peer = door, ""
        self._loop = asyncio.get_running_loop()
        self._parser: Any = httptools.HttpRequestParser(self)
        self._transport: Any = None
        self._exchange: Exchange | None = None
        self._url, self._headers, self._head_bytes, self._in_head = b"", dict[bytes, bytes](), 0, False
        self._keep_alive, self._pipelined, self._refusal = True, False, None
        self._lingering, self._discarded = False, 0
        self._write_paused, self._read_paused = False, False
        self._flushed: asyncio.Future[None] | None = None
        self.deadline = math.inf

    # ---- what asyncio calls ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody connected."""
        self._transport = transport
        transport.set_write_buffer_limits(high=1, low=0)  # type: ignore[attr-defined] # what is written counts until it has left
        place = transport.get_extra_info("peername")
        if isinstance(place, tuple):
            host, port = place[0], place[1]
            self.peer = f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"
        self.deadline = self._loop.time() + HEAD_SECONDS
        self.door.connections.add(self)
        if self.door.is_full():
            self._refuse(Overloaded("the server holds as many connections as it can; try again later"))

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if self._lingering:
            self._discarded += len(data)
            if self._discarded > _LINGER_BYTES:
                self._transport.abort()
            return
        if self._exchange is None and not self._head_bytes:
            self.deadline = self._loop.time() + HEAD_SECONDS
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refusal = self._refusal or _upgrade_refusal()
        except httptools.HttpParserError:
            self._refusal = self._refusal or BadRequest("this is not a request of HTTP/1.1 that can be read in one way only")
        if self._in_head or not self._exchange:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES and self._exchange is None and self._refusal is None:
                self._refusal = _head_too_large()
        if self._refusal is not None and self._exchange is None:
            self._refuse(self._refusal)

    def eof_received(self) -> bool:
        """The other side will send nothing more: it hung up."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        del exc
        self.door.connections.discard(self)
        self.deadline, self._lingering = math.inf, True
        exchange, self._exchange = self._exchange, None
        if self._flushed is not None and not self._flushed.done():
            self._flushed.set_exception(ConnectionResetError("the other side hung up"))
        if exchange is not None:
            if exchange.task is not None:
                exchange.task.cancel()
            exchange.end()

    def pause_writing(self) -> None:
        """The answer does not leave as fast as it is made."""
        self._write_paused = True

    def resume_writing(self) -> None:
        """All that was written has left."""
        self._write_paused = False
        if self._flushed is not None and not self._flushed.done():
            self._flushed.set_result(None)

    # ---- what the parser calls ---------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A request begins."""
        if self._exchange is not None:
            self._pipelined = True
        self._url, self._headers, self._in_head = b"", {}, True

    def on_url(self, url: bytes) -> None:
        """A piece of its target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One of its headers."""
        name = name.lower()
        if name in _KNOWN:
            if name in self._headers:
                self._refusal = BadRequest(f"the request has two headers called {name.decode()}")
            self._headers[name] = value
        self._head_bytes += len(name) + len(value)

    def on_headers_complete(self) -> None:
        """Its head is here: it is served from now on, while its body comes."""
        self._in_head = False
        if self._pipelined or self._refusal is not None:
            return
        refusal = self._head_refusal()
        if refusal is not None:
            self._refusal = refusal
            return
        target = self._url.decode("ascii", "replace")
        self._keep_alive = self._parser.get_http_version() == "1.1" and self._parser.should_keep_alive()
        self._head_bytes, self.deadline = 0, math.inf
        exchange = Exchange(self, self._parser.get_method().decode("ascii"), target, self._headers)
        self._exchange = exchange
        exchange.task = self._loop.create_task(self._serve(exchange))

    def on_body(self, body: bytes) -> None:
        """A piece of its body."""
        if self._exchange is not None and not self._pipelined and self._refusal is None:
            self._exchange.feed(body)

    def on_message_complete(self) -> None:
        """All of it is here."""
        if self._exchange is not None and not self._pipelined:
            self._exchange.feed_end()

    def _head_refusal(self) -> BadRequest | None:
        headers, version = self._headers, self._parser.get_http_version()
        if version not in ("1.1", "1.0"):
            return BadRequest("this port speaks HTTP/1.1")
        if self._parser.should_upgrade():
            return _upgrade_refusal()
        if self._head_bytes + len(self._url) > MAX_HEAD_BYTES:
            return _head_too_large()
        if b"transfer-encoding" in headers:
            return BadRequest("a body needs its length in Content-Length; Transfer-Encoding is not taken", 411)
        if not headers.get(b"content-length", b"0").isdigit() or len(headers.get(b"content-length", b"")) > 15:
            return BadRequest("Content-Length is not a number of bytes")
        if not headers.get(b"host") and version == "1.1":
            return BadRequest("the request names no host")
        if not self._url.startswith(b"/"):
            return BadRequest("the target of the request is not a path")
        if headers.get(b"expect", b"100-continue").lower() != b"100-continue":
            return BadRequest("only 100-continue can be expected here", 417)
        return None

    # ---- serving -----------------------------------------------------------------------------------------------------

    async def _serve(self, exchange: Exchange) -> None:
        try:
            await self.door.handle(exchange)
        except CallRefused as error:
            await self._answer_refusal(exchange, error)
        except ConnectionError:  # it hung up while it was answered
            return
        except Exception as error:
            self._loop.call_exception_handler({"message": "a handler of a request failed", "exception": error})
            failure = CallRefused(f"the server failed ({type(error).__name__})")
            failure.code = "UNKNOWN"
            await self._answer_refusal(exchange, failure)
        finally:
            exchange.end()
        if self._exchange is exchange:
            self._finish(exchange)

    async def _answer_refusal(self, exchange: Exchange, error: CallRefused) -> None:
        if exchange.answered:  # the head is out: only the end of the connection can say that the rest is missing
            self._transport.abort()
            return
        status, kind, body, extra = error_body(error)
        try:
            await exchange.reply(status, body, kind, extra)
        except ConnectionError:
            return

    def _finish(self, exchange: Exchange) -> None:
        ends = self.ends_after(exchange)
        self._exchange = None
        if not exchange.answered:
            self._transport.abort()
        elif self._pipelined or self._refusal is not None:
            self._refuse(self._refusal or BadRequest("a request came before the answer to the one before; send them one by one"))
        elif not exchange.is_complete:
            self._linger()
        elif ends:
            self._lingering, self.deadline = True, self._loop.time() + STALLED_SECONDS
            self._transport.close()
        else:
            self.resume_reading()
            self.deadline = self._loop.time() + IDLE_SECONDS

    def ends_after(self, exchange: Exchange) -> bool:
        """Does the connection end after this answer?"""
        return not self._keep_alive or not exchange.is_complete or self.door.closing or self._pipelined or self._refusal is not None

    def _refuse(self, refusal: CallRefused) -> None:
        """Answer what is not even a request, and end the connection."""
        status, kind, body, extra = error_body(refusal)
        if not self._transport.is_closing():
            self.write(answer_head(status, len(body), kind, self.door.date, extra, close=True) + body)
        self._linger()

    def _linger(self) -> None:
        """End the connection as soon as the other side has had time to read what was sent."""
        self._lingering = True
        self.resume_reading()
        self.deadline = self._loop.time() + _LINGER_SECONDS
        if self._transport.can_write_eof():  # TLS has no such half; the answer says that the connection ends
            self._transport.write_eof()

    # ---- for the exchange --------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send bytes."""
        if self._transport.is_closing():
            raise ConnectionResetError("the other side hung up")
        self._transport.write(data)

    async def flush(self, nbytes: int) -> None:
        """Until all that was written has left; an answer that is not read ends its connection."""
        if not self._write_paused:
            return
        self.deadline = self._loop.time() + STALLED_SECONDS + nbytes / MIN_RATE
        self._flushed = self._loop.create_future()
        try:
            await self._flushed
        finally:
            self._flushed, self.deadline = None, math.inf

    def send_continue(self) -> None:
        """The body may come."""
        if self._exchange is not None and not self._exchange.held:
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def expect_body(self, nbytes: int) -> None:
        """A body of so many bytes must be here soon."""
        self.deadline = self._loop.time() + STALLED_SECONDS + nbytes / MIN_RATE
        self.resume_reading()

    def expect_nothing(self) -> None:
        """It is here."""
        self.deadline = math.inf

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

    def at_deadline(self) -> None:
        """The other side took too long."""
        self.deadline = math.inf
        exchange = self._exchange
        if self._lingering or self._write_paused:
            self._transport.abort()
        elif exchange is not None:
            exchange.fail(TooSlow("the body came too slowly; send it again"))
        elif self._head_bytes:
            self._refuse(TooSlow("the head of the request came too slowly"))
        else:
            self._transport.close()

    def hang_up(self) -> None:
        """The door closes: end at once if nothing is being answered."""
        if self._exchange is None:
            self._transport.close()

    def abort(self) -> None:
        """End at once, whatever is under way."""
        self._transport.abort()


def _upgrade_refusal() -> BadRequest:
    return BadRequest("this port speaks HTTP/1.1 and upgrades to nothing else")


def _head_too_large() -> BadRequest:
    return BadRequest(f"the head of the request is longer than {MAX_HEAD_BYTES} bytes", 431)
