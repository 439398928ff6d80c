"""Calling a server: one channel, patience with a server that is out of reach, what its refusals mean, and transfers that resume."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import grpc

from fedfleet.core.errors import BadInput, Refused, RunFailed, printable
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import (
    CHANNEL_OPTIONS,
    CHUNK,
    INLINE_BYTES,
    MAX_HEAD_BYTES,
    crc32c,
    decode_frame,
    encode_frame,
    method_path,
    parse_message,
    split_address,
)

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
CALL_SECONDS = 120.0  # a check-in may be held for a while
_BRIEF_SECONDS = 2.0  # for a farewell
_CONNECT_MS = 20_000  # far links and busy servers take seconds; a refusal is heard at once
_RECONNECT_MS = 2000
_WARN_AFTER = 1.0  # seconds without an answer, before a person is told
_OPTIONS = (
    *CHANNEL_OPTIONS,
    ("grpc.max_receive_message_length", INLINE_BYTES + CHUNK + 2 * MAX_HEAD_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", _CONNECT_MS),  # so gRPC names the time that one attempt to connect may take
    ("grpc.max_reconnect_backoff_ms", _RECONNECT_MS),
    ("grpc.keepalive_time_ms", 30_000),  # a line that died without a word is noticed
    ("grpc.keepalive_timeout_ms", 20_000),
)
_OUT_OF_REACH = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.CANCELLED,  # by a server that goes down
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.INTERNAL,  # so gRPC calls a line that was cut off in the middle of a message, at times
    grpc.StatusCode.UNKNOWN,
)
_NO_TLS = ("certificate", "ssl_error", "wrong_version", "tsi_protocol_failure", "peer name")
Reply = TypeVar("Reply")


class Unreachable(Exception):
    """The server did not answer this time; trying again may help. The text says what went wrong."""


class UnknownDevice(Exception):
    """The server does not know this device (any more). The text is the server's reason."""


class NotFound(Exception):
    """What was asked for is not there any more."""


@dataclass(slots=True)
class RetryPolicy:
    """How a device waits: pauses double up to a limit, and chance shortens each, so that a fleet does not come back at once."""

    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = field(default_factory=lambda: random.SystemRandom().random)

    def pauses(self, first: float = FIRST_PAUSE, longest: float = LONGEST_PAUSE) -> Iterator[float]:
        """One pause after the other, each between half of its length and the whole of it.

        >>> [round(p, 2) for p, _ in zip(RetryPolicy(chance=lambda: 0.0).pauses(), range(8))]
        [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0]
        """
        pause = first
        while True:
            yield pause * (1.0 - 0.5 * self.chance())
            pause = min(2.0 * pause, longest)


class Connection:
    """A line to one server: its methods take and give messages; bytes that travelled are counted. A resource, to be closed."""

    def __init__(self, server: str, credentials: grpc.ChannelCredentials | None = None) -> None:
        host, port = split_address(server)
        self.server, self.uses_tls = server, credentials is not None
        self.bytes_down = self.bytes_up = 0
        target = f"{host}:{port}"
        self._channel = (
            grpc.insecure_channel(target, options=_OPTIONS)
            if credentials is None
            else grpc.secure_channel(target, credentials, options=_OPTIONS)
        )
        one: Any = self._channel.unary_unary
        self._unary = {name: one(method_path(name)) for name in ("Enrol", "Check", "Hand", "Held", "Leave")}
        self._fetch: Any = self._channel.unary_stream(method_path("Fetch"))
        self._stream: Any = self._channel.stream_unary(method_path("HandStream"))

    def close(self) -> None:
        """Hang up."""
        self._channel.close()

    def enrol(self, request: pb.EnrolRequest) -> pb.EnrolReply:
        """Become a client, or be known again."""
        return parse_message(self._call("Enrol", request.SerializeToString()), pb.EnrolReply)

    def check(self, request: pb.CheckIn) -> tuple[pb.Answer, memoryview]:
        """Ask for work; the answer, and the model where it came along."""
        return decode_frame(self._call("Check", request.SerializeToString()), pb.Answer)

    def fetch(self, request: pb.FetchRequest) -> Iterator[bytes]:
        """The bytes of a blob from an offset on."""
        try:
            for chunk in self._fetch(request.SerializeToString(), timeout=None):
                self.bytes_down += len(chunk)
                yield chunk
        except grpc.RpcError as error:
            raise self._to_error(error) from None

    def send_report(self, data: bytes, seconds: float = CALL_SECONDS) -> tuple[pb.Receipt, memoryview]:
        """A framed report in one message; the receipt, and the model of the next work where it came along."""
        return decode_frame(self._call("Hand", data, seconds), pb.Receipt)

    def stream_report(self, pieces: Iterable[bytes], seconds: float) -> tuple[pb.Receipt, memoryview]:
        """The same in pieces: a frame without a payload first, then chunks."""
        try:
            return decode_frame(self._count_reply(self._stream(self._count_pieces(pieces), timeout=seconds)), pb.Receipt)
        except grpc.RpcError as error:
            raise self._to_error(error) from None

    def upload_offset(self, request: pb.HeldRequest) -> int:
        """How many bytes of a broken upload are there."""
        return parse_message(self._call("Held", request.SerializeToString()), pb.HeldReply).offset

    def leave(self, request: pb.LeaveRequest) -> None:
        """Say good-bye; whoever cannot be told will notice."""
        self._call("Leave", request.SerializeToString(), _BRIEF_SECONDS)

    def _call(self, method: str, data: bytes, seconds: float = CALL_SECONDS) -> bytes:
        self.bytes_up += len(data)
        try:
            return self._count_reply(self._unary[method](data, timeout=seconds))
        except grpc.RpcError as error:
            raise self._to_error(error) from None

    def _count_reply(self, reply: bytes) -> bytes:
        self.bytes_down += len(reply)
        return reply

    def _count_pieces(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.bytes_up += len(piece)
            yield piece

    def _to_error(self, error: Any) -> Exception:
        """What a failed call means to a device. What the server wrote is shown, and never more than shown."""
        code, details = error.code(), printable(error.details() or "")
        if code in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.PERMISSION_DENIED):
            return BadInput(f"the server at {self.server} refuses: {details}")
        if code is grpc.StatusCode.UNAUTHENTICATED:
            return UnknownDevice(details)
        if code is grpc.StatusCode.NOT_FOUND:
            return NotFound(details)
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return BadInput(
                f"what answers at {self.server} is not a FedFleet server, or has another version ({details}); check the "
                "address, and install the same version on both sides"
            )
        if code in _OUT_OF_REACH:
            if code is grpc.StatusCode.UNAVAILABLE and any(word in details.lower() for word in _NO_TLS):
                return BadInput(
                    f"the server at {self.server} and this device cannot agree on TLS ({details}); give --ca "
                    f"with the authority that "
                    "signed the server's certificate, and use the host name in that certificate as the address"
                )
            return Unreachable(f"{code.name}: {details}" if details else code.name)
        return RunFailed(f"the server at {self.server} failed: {code.name}: {details}")


def call_with_retries(
    call: Callable[[], Reply],
    connection: Connection,
    wait: RetryPolicy,
    seconds: float,
    remark: Callable[[str], None] | None = None,
) -> Reply:
    """One call, tried again with growing pauses while the server is out of reach; BadInput when patience ends."""
    start, has_warned = wait.clock(), False
    for pause in wait.pauses():
        try:
            return call()
        except Unreachable as error:
            if wait.clock() + pause > start + seconds:
                plain = "" if connection.uses_tls else ", or give --ca if it speaks TLS"
                raise BadInput(
                    f"no server answers at {connection.server} ({error}); start one with fedfleet serve{plain}"
                ) from None
            if remark is not None and not has_warned and wait.clock() - start > _WARN_AFTER:
                remark(f"the server at {connection.server} does not answer ({error}); trying for {seconds:g} s")
                has_warned = True
        wait.sleep(pause)
    raise AssertionError("pauses never end")


# ---- transfers ----------------------------------------------------------------------------------------------------
# Models down and reports up over a line that breaks: each goes on where it was, and is checked when it is whole.

_MIN_SECONDS = 5.0  # that a call is given, however near its end the lease is
_BUSY_PAUSE = 0.05


class TooLate(Exception):
    """The lease of a task ended before its model was here or its report there."""


def fetch_blob(connection: Connection, caller: pb.Caller, blob: pb.Blob, wait: RetryPolicy, until: float) -> bytes:
    """A blob, resumed as often as the line breaks; `Refused` if what came is not what was announced."""
    for _ in range(2):  # damage on the way is possible once; twice, it is what the server has
        data = _fetch_once(connection, caller, blob, wait, until)
        if crc32c(data) == blob.crc32c:
            return data
    raise Refused("the model arrived damaged twice: its checksum is wrong")


def _fetch_once(connection: Connection, caller: pb.Caller, blob: pb.Blob, wait: RetryPolicy, until: float) -> bytes:
    data = bytearray()
    for pause in wait.pauses():
        before = len(data)
        try:
            for chunk in connection.fetch(pb.FetchRequest(caller=caller, name=blob.name, offset=len(data))):
                data += chunk
                if len(data) > blob.nbytes:
                    raise Refused(f"more bytes arrived than the {blob.nbytes} bytes of the model")
            if len(data) == blob.nbytes:
                return bytes(data)
        except Unreachable:
            pass
        if time.time() > until:
            raise TooLate(f"only {len(data)} of {blob.nbytes} bytes of the model arrived before the lease ended")
        wait.sleep(min(pause, _BUSY_PAUSE) if len(data) > before else pause)
    raise AssertionError("pauses never end")


def deliver_report(
    connection: Connection, head: pb.Report, payload: bytes, wait: RetryPolicy, until: float
) -> tuple[pb.Receipt, memoryview] | None:
    """Hand a report in, again and again until there is a word on it; None if the lease ended first.

    SAFE, REFUSED and UNWANTED are such words. What was damaged on its way is sent again, and what is large goes on where the line
    broke.
    """
    line_broke = False
    for pause in wait.pauses():
        seconds_left = until - time.time()
        rest = 0.0
        try:
            receipt, model = _send_once(connection, head, payload, max(seconds_left, _MIN_SECONDS), resume=line_broke)
            if receipt.status not in (pb.Receipt.BUSY, pb.Receipt.RETRY):
                return receipt, model
            rest = receipt.seconds if receipt.status == pb.Receipt.BUSY else pause
        except Unreachable:
            rest = pause
        line_broke = True
        if time.time() > until:
            return None
        # What the server says counts, but a server that says nothing is not asked in a circle.
        wait.sleep(max(rest, min(pause, _BUSY_PAUSE)))
    raise AssertionError("pauses never end")


def _send_once(
    connection: Connection, head: pb.Report, payload: bytes, seconds: float, *, resume: bool
) -> tuple[pb.Receipt, memoryview]:
    if len(payload) <= INLINE_BYTES:
        return connection.send_report(encode_frame(head, payload), min(seconds, CALL_SECONDS))
    offset = 0
    if resume:
        request = pb.HeldRequest(caller=head.caller, task=head.task, nonce=head.nonce, nbytes=head.nbytes, crc32c=head.crc32c)
        offset = min(connection.upload_offset(request), len(payload))
    return connection.stream_report(_pieces(head, payload, offset), seconds)


def _pieces(head: pb.Report, payload: bytes, offset: int) -> Iterator[bytes]:
    first = pb.Report()
    first.CopyFrom(head)
    first.offset = offset
    yield encode_frame(first)
    for a in range(offset, len(payload), CHUNK):
        yield payload[a : a + CHUNK]
