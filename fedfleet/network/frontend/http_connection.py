"""One connection of HTTP/1.1: requests one after the other, each with its limits, and their answers.

The bytes are read by `httptools` (the parser of Node.js, strict). What could be read in two ways is refused before anything is done
with it: two lengths, a body in chunks, two hosts, a request before the answer to the one before. After a refusal that leaves
anything unread the connection ends: what follows on it could be taken for a request.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

import httptools

from fedfleet.network.frontend.http_answers import answer_head, error_body
from fedfleet.network.frontend.http_exchange import (
    HEAD_SECONDS,
    IDLE_SECONDS,
    MAX_HEAD_BYTES,
    MIN_RATE,
    STALLED_SECONDS,
    BadRequest,
    Door,
    Exchange,
    Overloaded,
    serve_exchange,
)
from fedfleet.network.frontend.http_head import RequestHead, head_too_large, upgrade_refusal
from fedfleet.network.frontend.refusals import CallRefused, TooSlow
from fedfleet.network.frontend.transport_flow import TransportFlow

_JOINED_BYTES = 1 << 16  # an answer of at most so many bytes is one piece with its head
_LINGER_SECONDS, _LINGER_BYTES = 2.0, 1 << 20  # of what is still received after a refusal: else a reset could overtake the answer


class Http1Exchange(Exchange):
    """A request of HTTP/1.1."""

    __slots__ = ("_line",)

    def __init__(self, connection: HttpConnection, method: str, target: str, headers: dict[bytes, bytes]) -> None:
        super().__init__(connection, method, target, headers)
        self._line = connection

    async def reply(self, status: int, body: bytes, kind: bytes, extra: bytes = b"") -> None:
        """Send the whole answer; it has left this process when this returns."""
        self.send_head(status, len(body), kind, extra, b"" if self.method == "HEAD" else body)
        await self._line.flush(len(body))

    def send_head(self, status: int, nbytes: int, kind: bytes, extra: bytes = b"", body: bytes = b"") -> None:
        """Send the head of an answer of so many bytes, which follow."""
        self.answered, connection = True, self._line
        head = answer_head(status, nbytes, kind, connection.door.date, self.extra + extra, close=connection.ends_after(self))
        if len(body) <= _JOINED_BYTES:
            connection.write(head + body)
        else:
            connection.write(head)
            connection.write(body)

    async def write(self, data: bytes) -> None:
        """Send a piece of the body."""
        self._line.write(data)
        await self._line.flush(len(data))


class HttpConnection(asyncio.Protocol):
    """One connection, as asyncio calls it. `at_deadline` is called by the door when `deadline` has passed."""

    def __init__(self, door: Door) -> None:
        self.door, self.peer = door, ""
        self._loop = asyncio.get_running_loop()
        self._parser: Any = httptools.HttpRequestParser(self)
        self._transport: Any = None
        self._exchange: Exchange | None = None
        self._head, self._flow = RequestHead(), TransportFlow()
        self._keep_alive, self._pipelined, self._refusal = True, False, None
        self._lingering, self._discarded = False, 0
        self.deadline = math.inf

    # ---- what asyncio calls ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody connected."""
        self._transport = transport
        self._flow.start(transport)
        place = transport.get_extra_info("peername")
        if isinstance(place, tuple):
            host, port = place[0], place[1]
            self.peer = f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"
        secure = transport.get_extra_info("ssl_object")
        if secure is not None and secure.selected_alpn_protocol() == "h2":
            self._become_http2()
            return
        self.deadline = self._loop.time() + HEAD_SECONDS
        self.door.add(self)
        if self.door.is_full():
            self._refuse(Overloaded("the server holds as many connections as it can; try again later"))

    def _become_http2(self) -> None:
        """Both sides speak it: from now on asyncio calls a connection of that version."""
        from fedfleet.network.frontend.http2_connection import Http2Connection

        connection = Http2Connection(self.door, self.peer)
        self._transport.set_protocol(connection)
        connection.connection_made(self._transport)

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if self._lingering:
            self._discarded += len(data)
            if self._discarded > _LINGER_BYTES:
                self._transport.abort()
            return
        head = self._head
        if self._exchange is None and not head.nbytes:
            self.deadline = self._loop.time() + HEAD_SECONDS
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refusal = self._refusal or upgrade_refusal()
        except httptools.HttpParserError:
            self._refusal = self._refusal or BadRequest("this is not a request of HTTP/1.1 that can be read in one way only")
        if head.is_open or not self._exchange:
            head.nbytes += len(data)
            if head.nbytes > MAX_HEAD_BYTES and self._exchange is None and self._refusal is None:
                self._refusal = head_too_large()
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
        self._flow.stop()
        if exchange is not None:
            if exchange.task is not None:
                exchange.task.cancel()
            exchange.end()

    def pause_writing(self) -> None:
        """The answer does not leave as fast as it is made."""
        self._flow.pause_writing()

    def resume_writing(self) -> None:
        """All that was written has left."""
        self._flow.resume_writing()

    # ---- what the parser calls ---------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A request begins."""
        if self._exchange is not None:
            self._pipelined = True
        self._head.begin()

    def on_url(self, url: bytes) -> None:
        """A piece of its target."""
        self._head.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One of its headers."""
        self._refusal = self._head.add_header(name, value) or self._refusal

    def on_headers_complete(self) -> None:
        """Its head is here: it is served from now on, while its body comes."""
        head = self._head
        head.is_open = False
        if self._pipelined or self._refusal is not None:
            return
        self._refusal = head.refusal(self._parser)
        if self._refusal is not None:
            return
        target = head.url.decode("ascii", "replace")
        self._keep_alive = self._parser.get_http_version() == "1.1" and self._parser.should_keep_alive()
        head.nbytes, self.deadline = 0, math.inf
        exchange = Http1Exchange(self, self._parser.get_method().decode("ascii"), target, head.headers)
        self._exchange = exchange
        exchange.task = self._loop.create_task(self._serve(exchange))

    def on_body(self, body: bytes) -> None:
        """A piece of its body."""
        if self._exchange is not None and not self._pipelined and self._refusal is None:
            self._exchange.feed(body)

    def on_message_complete(self) -> None:
        """All of it is here."""
        if self._exchange is not None and not self._pipelined:
            self._exchange.body.complete()

    # ---- serving -----------------------------------------------------------------------------------------------------

    async def _serve(self, exchange: Exchange) -> None:
        try:
            if await serve_exchange(self.door, exchange, self._loop):
                self._transport.abort()
        except ConnectionError:
            return
        finally:
            exchange.end()
        if self._exchange is exchange:
            self._finish(exchange)

    def _finish(self, exchange: Exchange) -> None:
        ends = self.ends_after(exchange)
        self._exchange = None
        if not exchange.answered:
            self._transport.abort()
        elif self._pipelined or self._refusal is not None:
            self._refuse(self._refusal or BadRequest("a request came before the answer to the one before; send them one by one"))
        elif not exchange.body.is_complete:
            self._linger()
        elif ends:
            self._lingering, self.deadline = True, self._loop.time() + STALLED_SECONDS
            self._transport.close()
        else:
            self._flow.resume_reading()
            self.deadline = self._loop.time() + IDLE_SECONDS

    def ends_after(self, exchange: Exchange) -> bool:
        """Does the connection end after this answer?"""
        return (
            not self._keep_alive
            or not exchange.body.is_complete
            or self.door.closing
            or self._pipelined
            or self._refusal is not None
        )

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
        if not self._flow.write_paused:
            return
        self.deadline = self._loop.time() + STALLED_SECONDS + nbytes / MIN_RATE
        try:
            await self._flow.flush()
        finally:
            self.deadline = math.inf

    def send_continue(self) -> None:
        """The body may come."""
        if self._exchange is not None and not self._exchange.body.held:
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def expect_body(self, exchange: Exchange) -> None:
        """The body must be here soon."""
        self.deadline = self._loop.time() + STALLED_SECONDS + exchange.body.length / MIN_RATE
        self.resume_reading()

    def expect_nothing(self, exchange: Exchange) -> None:
        """It is here."""
        del exchange
        self.deadline = math.inf

    def pause_reading(self) -> None:
        """Receive no more."""
        self._flow.pause_reading()

    def resume_reading(self) -> None:
        """Receive again."""
        self._flow.resume_reading()

    def at_deadline(self) -> None:
        """The other side took too long."""
        self.deadline = math.inf
        exchange = self._exchange
        if self._lingering or self._flow.write_paused:
            self._transport.abort()
        elif exchange is not None:
            exchange.body.fail(TooSlow("the body came too slowly; send it again"))
        elif self._head.nbytes:
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
