"""Calling a server: one channel, which can be made anew, and its methods. Every failure is one of `call_errors`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from fedfleet.core.errors import Refused
from fedfleet.network.device.call_errors import Damaged, NotFound, call_error
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import (
    CHANNEL_OPTIONS,
    CHUNK,
    INLINE_BYTES,
    MAX_HEAD_BYTES,
    encode_message,
    has_checksum,
    method_path,
    parse_message,
    split_address,
    split_frame,
)

CALL_SECONDS = 120.0  # a check-in may be held for a while
_BRIEF_SECONDS = 2.0  # for a farewell
_CONNECT_MS = 20_000  # far links and busy servers take seconds; a refusal is heard at once
_RECONNECT_MS = 2000
_OPTIONS = (
    *CHANNEL_OPTIONS,
    ("grpc.use_local_subchannel_pool", 1),  # a new channel is a new connection, and no other device of this process shares it
    ("grpc.max_receive_message_length", INLINE_BYTES + CHUNK + 2 * MAX_HEAD_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", _CONNECT_MS),  # so gRPC names the time that one attempt to connect may take
    ("grpc.max_reconnect_backoff_ms", _RECONNECT_MS),
    ("grpc.keepalive_time_ms", 30_000),  # a line that died without a word is noticed
    ("grpc.keepalive_timeout_ms", 20_000),
)
_UNARY = ("Enrol", "Check", "Hand", "Held", "Leave")
Reply = TypeVar("Reply", bound=Message)


class Connection:
    """A line to one server: its methods take and give messages; bytes that travelled are counted. A resource, to be closed.

    `worked` says whether the server ever answered. `call_seconds` is how long one call may take.
    """

    def __init__(
        self, server: str, credentials: grpc.ChannelCredentials | None = None, *, call_seconds: float = CALL_SECONDS
    ) -> None:
        host, port = split_address(server)
        self.server, self.uses_tls, self.worked = server, credentials is not None, False
        self.bytes_down = self.bytes_up = 0
        self._target, self._credentials, self.call_seconds = f"{host}:{port}", credentials, call_seconds
        self._open()

    def _open(self) -> None:
        self._channel = (
            grpc.insecure_channel(self._target, options=_OPTIONS)
            if self._credentials is None
            else grpc.secure_channel(self._target, self._credentials, options=_OPTIONS)
        )
        one: Any = self._channel.unary_unary
        self._unary = {name: one(method_path(name)) for name in _UNARY}
        self._fetch: Any = self._channel.unary_stream(method_path("Fetch"))
        self._stream: Any = self._channel.stream_unary(method_path("HandStream"))

    def renew(self) -> None:
        """Hang up; the next call makes another connection."""
        self._channel.close()
        self._open()

    def close(self) -> None:
        """Hang up."""
        self._channel.close()

    def enrol(self, request: pb.EnrolRequest) -> pb.EnrolReply:
        """Become a client, or be known again."""
        return self._parse(self._call("Enrol", encode_message(request)), pb.EnrolReply)

    def check(self, request: pb.CheckIn) -> tuple[pb.Answer, memoryview]:
        """Ask for work; the answer, and the model where it came along."""
        return self._parse_frame(self._call("Check", encode_message(request)), pb.Answer)

    def fetch(self, request: pb.FetchRequest, seconds: float) -> Iterator[bytes]:
        """The bytes of a blob from an offset on."""
        for chunk in self._guarded(lambda: self._fetch(encode_message(request), timeout=seconds)):
            self.bytes_down += len(chunk)
            yield chunk

    def send_report(self, data: bytes, seconds: float = CALL_SECONDS) -> tuple[pb.Receipt, memoryview]:
        """A framed report in one message; the receipt, and the model of the next work where it came along."""
        return self._parse_frame(self._call("Hand", data, min(seconds, self.call_seconds)), pb.Receipt)

    def stream_report(self, pieces: Iterable[bytes], seconds: float) -> tuple[pb.Receipt, memoryview]:
        """The same in pieces: a frame without a payload first, then chunks."""
        (reply,) = self._guarded(lambda: [self._stream(self._count_pieces(pieces), timeout=seconds)])
        return self._parse_frame(self._count_reply(reply), pb.Receipt)

    def upload_offset(self, request: pb.HeldRequest) -> int:
        """How many bytes of a broken upload are there."""
        return self._parse(self._call("Held", encode_message(request)), pb.HeldReply).offset

    def leave(self, request: pb.LeaveRequest) -> None:
        """Say good-bye; whoever cannot be told will notice."""
        self._call("Leave", encode_message(request), _BRIEF_SECONDS)

    def _call(self, method: str, data: bytes, seconds: float | None = None) -> bytes:
        self.bytes_up += len(data)
        try:
            (reply,) = self._guarded(lambda: [self._unary[method](data, timeout=seconds or self.call_seconds)])
        except NotFound as error:  # of a model alone
            raise Damaged(f"NOT_FOUND: {error}") from None
        return self._count_reply(reply)

    def _guarded(self, call: Callable[[], Iterable[bytes]]) -> Iterator[bytes]:
        """The messages of an answer. Whatever goes wrong is one of `call_errors`."""
        try:
            for message in call():
                if not isinstance(message, bytes):  # so gRPC gives back an answer whose message was lost
                    raise Damaged("an answer without a message")
                yield message
        except grpc.RpcError as error:
            raise call_error(self.server, error) from None
        except (TypeError, ValueError, AttributeError, UnicodeError) as error:  # gRPC could not read what came
            raise Damaged(f"an answer that cannot be read ({type(error).__name__})") from None

    def _parse(self, data: bytes | memoryview, kind: type[Reply]) -> Reply:
        """A message of the server: `Damaged` if it is none, or not whole with its checksum."""
        if not has_checksum(data):
            raise Damaged("an answer without its checksum")
        try:
            reply = parse_message(data, kind)
        except Refused as error:
            raise Damaged(f"an answer that cannot be read: {error}") from None
        self.worked = True
        return reply

    def _parse_frame(self, data: bytes, kind: type[Reply]) -> tuple[Reply, memoryview]:
        try:
            head, payload = split_frame(data)
        except Refused as error:
            raise Damaged(f"an answer that cannot be read: {error}") from None
        return self._parse(head, kind), payload

    def _count_reply(self, reply: bytes) -> bytes:
        self.bytes_down += len(reply)
        return reply

    def _count_pieces(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.bytes_up += len(piece)
            yield piece
