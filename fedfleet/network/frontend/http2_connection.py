"""One connection of HTTP/2: many requests at once, each a stream with its own flow control, and the same exchange as in HTTP/1.1.

`h2` keeps the rules of the protocol; whatever breaks them ends the connection. What a device may leave unread or unsent is bounded:
streams, windows, headers, and resets, with which a stranger could make work that is thrown away.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RequestReceived,
    StreamEnded,
    StreamReset,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from fedfleet.network.frontend.http2_frames import FrameSizes
from fedfleet.network.frontend.http_answers import error_body
from fedfleet.network.frontend.http_exchange import (
    HEAD_SECONDS,
    IDLE_SECONDS,
    KNOWN,
    MAX_HEAD_BYTES,
    MIN_RATE,
    STALLED_SECONDS,
    BadRequest,
    Door,
    Exchange,
    Overloaded,
    head_refusal,
    serve_exchange,
)
from fedfleet.network.frontend.refusals import CallRefused, TooSlow

MAX_STREAMS = 32
_STREAM_WINDOW, _CONNECTION_WINDOW = 1 << 18, 1 << 20  # bytes of bodies that may come before they are taken
_MAX_UNSENT_BYTES = 1 << 18  # of answers to frames that nobody asked for: then no more are received
_MAX_RESETS = 100  # of streams, more than were answered


class Http2Exchange(Exchange):
    """A request that is a stream."""

    __slots__ = ("_line", "pending", "stream_id")

    def __init__(self, connection: Http2Connection, stream_id: int, method: str, target: str, headers: dict[bytes, bytes]) -> None:
        super().__init__(connection, method, target, headers)
        self._line, self.stream_id, self.pending = connection, stream_id, memoryview(b"")

    def feed(self, data: bytes) -> None:
        """A piece of the body came; its room is given back as soon as it is taken."""
        super().feed(data)
        if self._reading:
            self._line.acknowledge(self, len(data))

    async def read(self, most: int) -> bytes:
        """The whole body."""
        if self.body.length <= most and self.body.held:
            self._line.acknowledge(self, self.body.held)
        return await super().read(most)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        async for data in super().chunks():
            self._line.acknowledge(self, len(data))
            yield data

    def send_head(self, status: int, nbytes: int, kind: bytes, extra: bytes = b"", body: bytes = b"") -> None:
        """Send the head of an answer."""
        self.answered = True
        lines = [line.split(b": ", 1) for line in (self._connection.door.date + self.extra + extra).split(b"\r\n") if line]
        fixed = ((b"content-type", kind), (b"content-length", b"%d" % nbytes), (b"cache-control", b"no-store"))
        headers = [(b":status", b"%d" % status), *fixed, (b"x-content-type-options", b"nosniff")]
        self._line.send_headers(self, [*headers, *((name.lower(), value) for name, value in lines)])
        if body:
            self._line.send(self, body)

    async def reply(self, status: int, body: bytes, kind: bytes, extra: bytes = b"") -> None:
        """Send the whole answer."""
        self.send_head(status, len(body), kind, extra, b"" if self.method == "HEAD" else body)
        await self._line.flush_stream(self, len(body))

    async def write(self, data: bytes) -> None:
        """Send a piece of the body."""
        self._line.send(self, data)
        await self._line.flush_stream(self, len(data))


class Http2Connection(asyncio.Protocol):
    """One connection, as asyncio calls it after TLS has agreed on `h2`."""

    def __init__(self, door: Door, peer: str) -> None:
        self.door, self.peer = door, peer
        self._loop = asyncio.get_running_loop()
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        self._sizes = FrameSizes()
        self._transport: Any = None
        self._streams: dict[int, Http2Exchange] = {}
        self._waiters: dict[int, asyncio.Future[None]] = {}  # by stream: an answer that waits for room
        self._write_paused, self._read_paused, self._ending = False, False, False
        self._answered = self._resets = 0
        self._idle_until = self._loop.time() + HEAD_SECONDS

    # ---- what asyncio calls ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """TLS stands."""
        self._transport = transport
        self.door.add(self)
        settings = {
            SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS, SettingCodes.INITIAL_WINDOW_SIZE: _STREAM_WINDOW,
            SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEAD_BYTES,
        }  # fmt: skip
        self._h2.local_settings = Settings(client=False, initial_values=settings)
        self._h2.decoder.max_header_list_size = MAX_HEAD_BYTES
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(_CONNECTION_WINDOW - 65_535)
        self._write_out()

    def data_received(self, data: bytes) -> None:
        """Frames came."""
        if self._ending:
            return
        if not self._sizes.fit(data):
            self._end(ErrorCodes.FRAME_SIZE_ERROR)
            return
        try:
            events = self._h2.receive_data(data)
        except ProtocolError:
            self._end()
            return
        for event in events:
            self._on_event(event)
            if self._ending:
                return
        self._pump()

    def eof_received(self) -> bool:
        """The other side will send nothing more: it hung up."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        del exc
        self._ending = True
        self.door.connections.discard(self)
        for exchange in list(self._streams.values()):
            self._drop(exchange)

    def pause_writing(self) -> None:
        """Answers do not leave as fast as they are made."""
        self._write_paused = True

    def resume_writing(self) -> None:
        """All that was written has left."""
        self._write_paused = False
        if self._read_paused:
            self._read_paused = False
            self._transport.resume_reading()
        if not self._ending:
            self._pump()

    # ---- requests ----------------------------------------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        exchange = self._streams.get(getattr(event, "stream_id", None) or 0)
        match event:
            case RequestReceived():
                self._on_request(event)
            case DataReceived() if exchange is not None and exchange.body.failure is None:
                # Padding is room that nobody takes.
                self._h2.acknowledge_received_data(event.flow_controlled_length - len(event.data), exchange.stream_id)
                exchange.feed(event.data)
            case DataReceived():
                self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case StreamEnded() if exchange is not None:
                exchange.body.complete()
            case StreamReset():
                self._resets += 1
                if exchange is not None:
                    self._drop(exchange)
                if self._resets > _MAX_RESETS + self._answered:
                    self._end(ErrorCodes.ENHANCE_YOUR_CALM)
            case ConnectionTerminated():
                self._transport.close()
            case _:
                return

    def _on_request(self, event: RequestReceived) -> None:
        headers, pseudo, refusal = dict[bytes, bytes](), dict[bytes, bytes](), None
        for name, value in event.headers:
            table = pseudo if name.startswith(b":") else headers
            if table is headers and name not in KNOWN:
                continue
            if name in table:
                refusal = BadRequest(f"the request has two headers called {name.decode('latin-1')}")
            table[name] = value
        authority = pseudo.get(b":authority", b"")
        if authority:  # h2 refuses another host beside it
            headers[b"host"] = authority
        if event.stream_ended is None and b"content-length" not in headers:
            refusal = refusal or BadRequest("a body needs its length in content-length", 411)
        target = pseudo.get(b":path", b"")
        refusal = refusal or head_refusal(headers, target)
        if refusal is not None:
            headers.pop(b"content-length", None)
        if self.door.is_full():
            refusal = refusal or Overloaded("the server holds as many connections as it can; try again later")
        headers.pop(b"expect", None)  # flow control does as much
        method = pseudo.get(b":method", b"").decode("ascii", "replace")
        exchange = Http2Exchange(self, event.stream_id or 0, method, target.decode("ascii", "replace"), headers)
        self._streams[exchange.stream_id] = exchange
        exchange.task = self._loop.create_task(self._serve(exchange, refusal))

    async def _serve(self, exchange: Http2Exchange, refusal: CallRefused | None) -> None:
        try:
            if refusal is None:
                broken = await serve_exchange(self.door, exchange, self._loop)
            else:
                status, kind, body, extra = error_body(refusal)
                await exchange.reply(status, body, kind, extra)
                broken = False
        except ConnectionError:
            return
        finally:
            exchange.end()
        if self._streams.pop(exchange.stream_id, None) is None or self._ending:
            return
        self._answered += 1
        try:
            if broken or not exchange.answered:
                self._h2.reset_stream(exchange.stream_id, ErrorCodes.INTERNAL_ERROR)
            else:
                self._h2.end_stream(exchange.stream_id)
                if not exchange.body.is_complete:
                    self._h2.reset_stream(exchange.stream_id, ErrorCodes.NO_ERROR)
        except ProtocolError:
            self._end()
            return
        self._idle_until = self._loop.time() + IDLE_SECONDS
        self._write_out()
        if self.door.closing and not self._streams:
            self._end(ErrorCodes.NO_ERROR)

    def _drop(self, exchange: Http2Exchange) -> None:
        """The other side does not want this answer any more."""
        self._streams.pop(exchange.stream_id, None)
        waiter = self._waiters.pop(exchange.stream_id, None)
        if waiter is not None and not waiter.done():
            waiter.set_exception(ConnectionResetError("the other side hung up"))
        if exchange.task is not None:
            exchange.task.cancel()
        exchange.end()

    # ---- for exchanges -----------------------------------------------------------------------------------------------

    def acknowledge(self, exchange: Http2Exchange, nbytes: int) -> None:
        """So many bytes of a body were taken: as many more may come."""
        if nbytes and not self._ending and exchange.stream_id in self._streams:
            self._h2.acknowledge_received_data(nbytes, exchange.stream_id)
            self._write_out()

    def send_headers(self, exchange: Http2Exchange, headers: list[tuple[bytes, bytes]]) -> None:
        """The head of an answer."""
        self._check_open(exchange)
        self._h2.send_headers(exchange.stream_id, headers)
        self._write_out()

    def send(self, exchange: Http2Exchange, data: bytes) -> None:
        """Bytes of an answer, as far as there is room for them; the rest follows."""
        self._check_open(exchange)
        exchange.pending = memoryview(data)
        self._pump()

    async def flush_stream(self, exchange: Http2Exchange, nbytes: int) -> None:
        """Until all of it has left."""
        if not exchange.pending and not self._write_paused:
            return
        exchange.deadline = self._loop.time() + STALLED_SECONDS + nbytes / MIN_RATE
        waiter = self._waiters[exchange.stream_id] = self._loop.create_future()
        try:
            await waiter
        finally:
            self._waiters.pop(exchange.stream_id, None)
            exchange.deadline = math.inf

    def _check_open(self, exchange: Http2Exchange) -> None:
        if self._ending or exchange.stream_id not in self._streams:
            raise ConnectionResetError("the other side hung up")

    def _pump(self) -> None:
        """Send what streams have, as far as their windows and the transport take it."""
        for exchange in list(self._streams.values()):
            while exchange.pending and not self._write_paused:
                room = min(self._h2.local_flow_control_window(exchange.stream_id), self._h2.max_outbound_frame_size)
                if room <= 0:
                    break
                self._h2.send_data(exchange.stream_id, bytes(exchange.pending[:room]))
                exchange.pending = exchange.pending[room:]
                self._write_out()
        self._write_out()
        if not self._write_paused:
            for stream_id, waiter in list(self._waiters.items()):
                exchange = self._streams.get(stream_id)
                if (exchange is None or not exchange.pending) and not waiter.done():
                    waiter.set_result(None)

    def _write_out(self) -> None:
        data = self._h2.data_to_send()
        if data and not self._transport.is_closing():
            self._transport.write(data)
        if self._write_paused and not self._read_paused and self._transport.get_write_buffer_size() > _MAX_UNSENT_BYTES:
            self._read_paused = True
            self._transport.pause_reading()

    # What an exchange of HTTP/1.1 asks of its connection, and flow control does here.

    def pause_reading(self) -> None:
        """No room is given back."""

    def resume_reading(self) -> None:
        """Room is given back as bytes are taken."""

    def send_continue(self) -> None:
        """The window says that the body may come."""

    def expect_body(self, exchange: Exchange) -> None:
        """A body must be here soon."""
        exchange.deadline = self._loop.time() + STALLED_SECONDS + exchange.body.length / MIN_RATE

    def expect_nothing(self, exchange: Exchange) -> None:
        """It is here."""
        exchange.deadline = math.inf

    # ---- for the door ------------------------------------------------------------------------------------------------

    @property
    def deadline(self) -> float:
        """When something of it took too long."""
        return min((exchange.deadline for exchange in self._streams.values()), default=self._idle_until)

    def at_deadline(self) -> None:
        """The other side took too long."""
        now = self._loop.time()
        if not self._streams:
            self._end(ErrorCodes.NO_ERROR)
        for exchange in [each for each in self._streams.values() if each.deadline < now]:
            exchange.deadline = math.inf
            if exchange.stream_id in self._waiters:  # an answer that is not read
                self._transport.abort()
                return
            exchange.body.fail(TooSlow("the body came too slowly; send it again"))

    def hang_up(self) -> None:
        """The door closes: end as soon as nothing is being answered."""
        if not self._streams:
            self._end(ErrorCodes.NO_ERROR)

    def abort(self) -> None:
        """End at once."""
        self._transport.abort()

    def _end(self, code: ErrorCodes | None = None) -> None:
        """Say why (h2 has said it of what breaks its rules), and hang up."""
        if self._ending:
            return
        self._ending = True
        if code is not None:
            self._h2.close_connection(code)
        data = self._h2.data_to_send()
        if data and not self._transport.is_closing():
            self._transport.write(data)
        for exchange in list(self._streams.values()):
            self._drop(exchange)
        self._transport.close()
