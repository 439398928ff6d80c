"""What the paths of the HTTP door mean: the methods of the service in binary form (`/v1/call/NAME`) and with heads as JSON.

docs/reference/http.md is the page for those who write a device. Nothing here decides anything: the service does.
"""

from __future__ import annotations

import asyncio
import os
import re
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import parse_qsl

from google.protobuf.message import Message

from fedfleet.core.errors import Refused, printable
from fedfleet.network.frontend.http_answers import BYTES, JSON
from fedfleet.network.frontend.http_exchange import MIN_RATE, STALLED_SECONDS, BadRequest, Exchange, TooLarge
from fedfleet.network.frontend.http_json import MAX_JSON_BYTES, json_bytes, message_from_json, message_to_json
from fedfleet.network.frontend.page_files import PAGE_HEADERS, page_files
from fedfleet.network.frontend.refusals import (
    CallRefused,
    Malformed,
    NotFound,
    NotPermitted,
    TooSlow,
    Unauthenticated,
)
from fedfleet.network.frontend.service import FleetService, ModelsApart
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import (
    INLINE_BYTES,
    MAX_HEAD_BYTES,
    decode_frame,
    encode_frame,
    encode_message,
    parse_message,
)

_LENGTH = struct.Struct("<I")
_MAX_MESSAGE_BYTES = INLINE_BYTES + 2 * MAX_HEAD_BYTES
_RANGE = re.compile(r"bytes=([0-9]{1,15})-")
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,15})-([0-9]{1,15})/([0-9]{1,15})")
_NAME = re.compile(r"[0-9a-f]{8,128}")
_MAX_SPEED_BYTES = 4 << 20
_NOISE = os.urandom(1 << 16)  # no line compresses it
_CALL, _BLOBS, _REPORTS = "/v1/call/", "/v1/blobs/", "/v1/reports/"
_METHODS_OF_CORS = b"GET, POST, PUT"
_HEADERS_OF_CORS = b"Authorization, Content-Type, Content-Range, FedFleet-Report, Range"
_SHOWN_TO_CORS = b"Content-Range, ETag, Retry-After"
Handler = Callable[[Exchange], Awaitable[None]]


class NoSuchPath(CallRefused):
    """A path or a method that this door does not have."""

    code = "UNIMPLEMENTED"

    def __init__(self, text: str, status: int = 404) -> None:
        super().__init__(text)
        self.status = status


class WrongRange(Malformed):
    """A range that the blob does not have."""

    status = 416


class JsonCall(ModelsApart):
    """A call in JSON, which has no room for a model."""

    def __init__(self, exchange: Exchange) -> None:
        self.peer, self.add_done_callback = exchange.peer, exchange.add_done_callback


class HttpRoutes:
    """The paths of the door before one service."""

    def __init__(self, service: FleetService) -> None:
        self._service, config = service, service.frontend.config
        self._origins, self._scheme = frozenset(config.origins), "https" if config.tls else ""
        self._page = page_files() if config.page else {}
        self._table: dict[str, dict[str, Handler]] = {
            "/v1/enrol": {"POST": self._enrol},
            "/v1/check": {"POST": self._check},
            "/v1/leave": {"POST": self._leave},
            "/v1/status": {"GET": self._status},
            "/v1/shard": {"GET": self._shard},
            "/v1/profile": {"POST": self._profile},
            "/v1/speed": {"GET": self._send_bytes, "POST": self._take_bytes},
        }

    async def handle(self, exchange: Exchange) -> None:
        """Answer a request, or raise `CallRefused`."""
        if b"origin" in exchange.headers:
            self._check_origin(exchange)
        path, method = exchange.path, exchange.method
        if path.startswith(_CALL):
            handlers: dict[str, Handler] = {"POST": self._call}
        elif path.startswith(_BLOBS):
            handlers = {"GET": self._blob}
        elif path.startswith(_REPORTS):
            handlers = {"PUT": self._report, "GET": self._upload_offset}
        elif path in self._page:
            handlers = {"GET": self._page_file, "HEAD": self._page_file}
        else:
            handlers = self._table.get(path, {})
        handler = handlers.get(method)
        if handler is not None:
            await handler(exchange)
        elif method == "OPTIONS" and handlers and exchange.extra:
            await self._preflight(exchange)
        elif handlers:
            raise NoSuchPath(f"{printable(path)} is asked with {' or '.join(handlers)}, not {printable(method)}", 405)
        else:
            raise NoSuchPath(f"there is no {printable(path)} here; the paths of this server begin with /v1, see the page on HTTP")

    # ---- who calls ---------------------------------------------------------------------------------------------------

    def _check_origin(self, exchange: Exchange) -> None:
        """Refuse pages of others: they could use what a browser may reach and they may not."""
        origin, host = exchange.header(b"origin"), exchange.header(b"host")
        scheme, _, place = origin.partition("://")
        if origin in self._origins:
            exchange.extra = b"Access-Control-Allow-Origin: %s\r\nVary: Origin\r\nAccess-Control-Expose-Headers: %s\r\n" % (
                origin.encode("latin-1"),
                _SHOWN_TO_CORS,
            )
        elif place.lower() != host.lower() or not place or scheme not in ((self._scheme,) if self._scheme else ("http", "https")):
            raise NotPermitted(
                f"pages from {printable(origin)} may not call this server; its operator allows them with --allow-origin"
            )

    async def _preflight(self, exchange: Exchange) -> None:
        allowed = b"Access-Control-Allow-Methods: %s\r\nAccess-Control-Allow-Headers: %s\r\nAccess-Control-Max-Age: 600\r\n"
        await exchange.reply(200, b"", JSON, allowed % (_METHODS_OF_CORS, _HEADERS_OF_CORS))

    # ---- binary form -------------------------------------------------------------------------------------------------

    async def _call(self, exchange: Exchange) -> None:
        method, service = exchange.path[len(_CALL) :], self._service
        if method in service.methods:
            data = await exchange.read(_MAX_MESSAGE_BYTES)
            await exchange.reply(200, await service.answer(method, data, exchange), BYTES)
        elif method == "HandStream":
            await exchange.reply(200, await service.receive_stream(_frame_first(exchange), exchange), BYTES)
        elif method == "Fetch":
            await self._send_blob(exchange, await exchange.read(_MAX_MESSAGE_BYTES))
        else:
            raise NoSuchPath(f"there is no call {printable(method)}")

    async def _send_blob(self, exchange: Exchange, data: bytes, *, name: str = "") -> None:
        """The bytes of a blob from an offset on; as a resource with its `name`, or as the answer to a call."""
        chunks, service = self._service.fetch(data, exchange), self._service
        first = await anext(chunks, b"")  # whoever may not have it is refused here
        request = parse_message(data, pb.FetchRequest)
        nbytes = service.frontend.state.blobs[request.name][0].nbytes
        if name and request.offset > max(0, nbytes - 1):
            raise WrongRange(f"the blob has {nbytes} bytes")
        offset = min(request.offset, nbytes)
        extra = b'ETag: "%s"\r\n' % name.encode() if name else b""
        is_range = bool(name) and b"range" in exchange.headers
        if is_range:
            extra += b"Content-Range: bytes %d-%d/%d\r\n" % (offset, nbytes - 1, nbytes)
        exchange.send_head(206 if is_range else 200, nbytes - offset, BYTES, extra)
        if first:
            await exchange.write(first)
        async for chunk in chunks:
            await exchange.write(chunk)

    # ---- with heads as JSON ------------------------------------------------------------------------------------------

    def _caller(self, exchange: Exchange) -> pb.Caller:
        """Who calls, as the request's Authorization says; the service checks it."""
        scheme, _, shown = exchange.header(b"authorization").partition(" ")
        client, _, secret = shown.strip().partition(":")
        try:
            if scheme.lower() != "bearer" or not client.isdecimal():
                raise ValueError
            return pb.Caller(client=int(client), secret=bytes.fromhex(secret))
        except ValueError:
            self._service.frontend.counters[Unauthenticated.counter] += 1
            raise Unauthenticated(
                "the request does not say who calls; send Authorization: Bearer CLIENT:SECRET, with the secret in hexadecimal"
            ) from None

    async def _message(self, exchange: Exchange, kind: type[Message], without: tuple[str, ...] = ()) -> Message:
        data = await exchange.read(MAX_JSON_BYTES)
        try:
            return message_from_json(data, kind, without)
        except Refused as error:
            self._service.frontend.counters[Malformed.counter] += 1
            raise Malformed(f"the request cannot be used: {error}") from None

    async def _enrol(self, exchange: Exchange) -> None:
        request = await self._message(exchange, pb.EnrolRequest)
        reply = await self._service.answer("Enrol", encode_message(request), exchange)
        await exchange.reply(200, message_to_json(parse_message(reply, pb.EnrolReply)), JSON)

    async def _check(self, exchange: Exchange) -> None:
        caller = self._caller(exchange)
        request = await self._message(exchange, pb.CheckIn, ("caller",))
        request.caller.CopyFrom(caller)  # pyright: ignore[reportAttributeAccessIssue]
        reply = await self._service.answer("Check", encode_message(request), JsonCall(exchange))
        await exchange.reply(200, message_to_json(decode_frame(reply, pb.Answer)[0]), JSON)

    async def _leave(self, exchange: Exchange) -> None:
        request = pb.LeaveRequest(caller=self._caller(exchange))
        await exchange.read(MAX_JSON_BYTES)
        await self._service.answer("Leave", encode_message(request), exchange)
        await exchange.reply(200, b"{}", JSON)

    async def _status(self, exchange: Exchange) -> None:
        scheme, _, token = exchange.header(b"authorization").partition(" ")
        request = pb.StatusRequest(token=token.strip() if scheme.lower() == "bearer" else "")
        reply = await self._service.answer("Status", encode_message(request), exchange)
        await exchange.reply(200, parse_message(reply, pb.StatusReply).json.encode(), JSON)

    async def _page_file(self, exchange: Exchange) -> None:
        file = self._page[exchange.path]
        await exchange.reply(200, file.data, file.kind, PAGE_HEADERS)

    async def _shard(self, exchange: Exchange) -> None:
        await exchange.reply(200, await self._service.shard(self._caller(exchange)), BYTES)

    async def _profile(self, exchange: Exchange) -> None:
        caller = self._caller(exchange)
        self._service.record_profile(caller, await exchange.read(MAX_JSON_BYTES))
        await exchange.reply(200, b"{}", JSON)

    async def _send_bytes(self, exchange: Exchange) -> None:
        """Bytes that do not matter, so that a device can measure how fast they come."""
        wanted = dict(parse_qsl(exchange.query)).get("nbytes", "")
        nbytes = int(wanted) if wanted.isdecimal() and len(wanted) < 9 else -1
        if not 0 <= nbytes <= _MAX_SPEED_BYTES:
            raise BadRequest(f"ask with ?nbytes=NUMBER, {_MAX_SPEED_BYTES} at most")
        self._service.measure_link(self._caller(exchange))
        exchange.send_head(200, nbytes, BYTES)
        for offset in range(0, nbytes, len(_NOISE)):
            await exchange.write(_NOISE[: nbytes - offset])

    async def _take_bytes(self, exchange: Exchange) -> None:
        """The same upwards."""
        if exchange.body.length > _MAX_SPEED_BYTES:
            raise TooLarge(f"the body has {exchange.body.length} bytes, and {_MAX_SPEED_BYTES} is the most here")
        self._service.measure_link(self._caller(exchange))
        nbytes = 0
        try:
            async with asyncio.timeout(STALLED_SECONDS + exchange.body.length / MIN_RATE):
                async for chunk in exchange.chunks():
                    nbytes += len(chunk)
        except TimeoutError:
            raise TooSlow("the body came too slowly") from None
        await exchange.reply(200, json_bytes({"nbytes": str(nbytes)}), JSON)

    async def _blob(self, exchange: Exchange) -> None:
        name, wanted = exchange.path[len(_BLOBS) :], _RANGE.fullmatch(exchange.header(b"range"))
        if _NAME.fullmatch(name) is None:
            raise NotFound("the name of a blob is its hash in hexadecimal")
        if wanted is None:
            exchange.headers.pop(b"range", None)  # of a form that is not known here: the whole blob answers it too
        request = pb.FetchRequest(caller=self._caller(exchange), name=name, offset=int(wanted[1]) if wanted else 0)
        await self._send_blob(exchange, encode_message(request), name=name)

    async def _report(self, exchange: Exchange) -> None:
        caller, task = self._caller(exchange), _task_of(exchange.path)
        try:
            head = message_from_json(exchange.header(b"fedfleet-report"), pb.Report, ("caller", "task", "offset"))
        except Refused as error:
            raise Malformed(f"the header FedFleet-Report cannot be used: {error}") from None
        head.caller.CopyFrom(caller)
        head.task = task
        head.offset, total = _upload_range(exchange)
        if head.nbytes not in (0, total):
            raise BadRequest(f"FedFleet-Report names {head.nbytes} bytes, and the body is of {total}")
        head.nbytes = total
        reply = await self._service.receive_stream(_head_first(head, exchange), JsonCall(exchange))
        await exchange.reply(200, message_to_json(decode_frame(reply, pb.Receipt)[0]), JSON)

    async def _upload_offset(self, exchange: Exchange) -> None:
        query = dict(parse_qsl(exchange.query))
        try:
            request = pb.HeldRequest(
                caller=self._caller(exchange), task=_task_of(exchange.path), nonce=bytes.fromhex(query["nonce"]),
                nbytes=int(query["nbytes"]), crc32c=int(query["crc32c"]),
            )  # fmt: skip
        except (KeyError, ValueError):
            raise BadRequest("ask with ?nonce=HEXADECIMAL&nbytes=NUMBER&crc32c=NUMBER") from None
        reply = await self._service.answer("Held", encode_message(request), exchange)
        await exchange.reply(200, message_to_json(parse_message(reply, pb.HeldReply)), JSON)


def _task_of(path: str) -> int:
    number = path[len(_REPORTS) :]
    if not number.isdecimal() or len(number) > 18:
        raise BadRequest("the path of a report ends with the number of its task")
    return int(number)


def _upload_range(exchange: Exchange) -> tuple[int, int]:
    """Where the bytes of an upload belong: the offset of the first, and the length of the whole."""
    if b"content-range" not in exchange.headers:
        return 0, exchange.body.length
    match = _CONTENT_RANGE.fullmatch(exchange.header(b"content-range"))
    first, last, total = map(int, match.groups()) if match else (0, 0, 0)
    if match is None or last + 1 != total or last - first + 1 != exchange.body.length:
        raise BadRequest("Content-Range is not bytes FIRST-LAST/TOTAL of this body, with LAST = TOTAL - 1")
    return first, total


async def _head_first(head: pb.Report, exchange: Exchange) -> AsyncIterator[bytes]:
    """A report as the service takes it: its head in a frame without a payload, then its bytes."""
    yield encode_frame(head)
    async for chunk in exchange.chunks():
        yield chunk


async def _frame_first(exchange: Exchange) -> AsyncIterator[bytes]:
    """The same from a body that begins with that frame."""
    start, has_frame = b"", False
    async for chunk in exchange.chunks():
        if has_frame:
            yield chunk
            continue
        start += chunk
        if len(start) < _LENGTH.size:
            continue
        end = _LENGTH.size + _LENGTH.unpack_from(start)[0]
        if end > MAX_HEAD_BYTES + _LENGTH.size:
            raise Malformed(f"the head of a frame has {MAX_HEAD_BYTES} bytes at most")
        if len(start) >= end:
            yield start[:end]
            has_frame = True
            if len(start) > end:
                yield start[end:]
