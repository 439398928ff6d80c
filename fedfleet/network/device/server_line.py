"""The calls of a device, whichever way they take: messages in, messages out. Every failure is one of `call_errors`.

`server_calls` calls over gRPC, `http_calls` over HTTP.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TypeVar

from google.protobuf.message import Message

from fedfleet.core.errors import BadInput, Refused
from fedfleet.network.device.call_errors import Damaged, NotFound
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import encode_message, has_checksum, parse_message, split_address, split_frame

CALL_SECONDS = 120.0  # a check-in may be held for a while
_BRIEF_SECONDS = 2.0  # for a farewell
Reply = TypeVar("Reply", bound=Message)


class ServerLine(ABC):
    """A line to one server: its methods take and give messages; bytes that travelled are counted. A resource, to be closed.

    `worked` says whether the server ever answered. `call_seconds` is how long one call may take.
    """

    def __init__(self, server: str, *, uses_tls: bool, call_seconds: float = CALL_SECONDS) -> None:
        self.server, self.uses_tls, self.worked = server, uses_tls, False
        self.bytes_down = self.bytes_up = 0
        self.call_seconds = call_seconds

    # ---- what each way of calling has of its own ---------------------------------------------------------------------

    @abstractmethod
    def renew(self) -> None:
        """Hang up; the next call makes another connection."""

    @abstractmethod
    def close(self) -> None:
        """Hang up."""

    @abstractmethod
    def _ask(self, method: str, data: bytes, seconds: float) -> bytes:
        """One call with one message each way."""

    @abstractmethod
    def _ask_chunks(self, method: str, data: bytes, seconds: float) -> Iterator[bytes]:
        """One call whose answer comes in chunks."""

    @abstractmethod
    def _send_chunks(self, method: str, pieces: Iterable[bytes], nbytes: int, seconds: float) -> bytes:
        """One call whose message goes in pieces of so many bytes in all."""

    # ---- the calls ---------------------------------------------------------------------------------------------------

    def enrol(self, request: pb.EnrolRequest) -> pb.EnrolReply:
        """Become a client, or be known again."""
        return self._parse(self._call("Enrol", encode_message(request)), pb.EnrolReply)

    def check(self, request: pb.CheckIn) -> tuple[pb.Answer, memoryview]:
        """Ask for work; the answer, and the model where it came along."""
        return self._parse_frame(self._call("Check", encode_message(request)), pb.Answer)

    def fetch(self, request: pb.FetchRequest, seconds: float) -> Iterator[bytes]:
        """The bytes of a blob from an offset on."""
        for chunk in self._ask_chunks("Fetch", encode_message(request), seconds):
            self.bytes_down += len(chunk)
            yield chunk

    def shard(self, caller: pb.Caller, most: int) -> bytes:
        """The samples of a rehearsal that the run deals to this client; `NotFound` where it deals none, or none come this way."""
        del caller, most
        raise NotFound("over gRPC no samples come from the server")

    def send_report(self, data: bytes, seconds: float = CALL_SECONDS) -> tuple[pb.Receipt, memoryview]:
        """A framed report in one message; the receipt, and the model of the next work where it came along."""
        return self._parse_frame(self._call("Hand", data, min(seconds, self.call_seconds)), pb.Receipt)

    def stream_report(self, pieces: Iterable[bytes], nbytes: int, seconds: float) -> tuple[pb.Receipt, memoryview]:
        """The same in pieces of `nbytes` in all: a frame without a payload first, then chunks."""
        reply = self._send_chunks("HandStream", self._count_pieces(pieces), nbytes, seconds)
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
            reply = self._ask(method, data, seconds or self.call_seconds)
        except NotFound as error:  # of a model alone
            raise Damaged(f"NOT_FOUND: {error}") from None
        return self._count_reply(reply)

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


def split_server(server: str) -> tuple[str, str, int]:
    """How a server is called (`https`, `http`, or nothing for gRPC), its host and its port.

    >>> split_server("https://example.org:8443"), split_server("127.0.0.1:50051")
    (('https', 'example.org', 8443), ('', '127.0.0.1', 50051))
    """
    scheme, separator, address = server.partition("://")
    if not separator:
        return "", *split_address(server)
    address = address.removesuffix("/")
    if scheme not in ("http", "https"):
        raise BadInput(f"the server {server!r} is called neither over HTTP nor over gRPC; write https://HOST:PORT or HOST:PORT")
    if ":" not in address.rpartition("]")[2]:
        address += ":443" if scheme == "https" else ":80"
    return scheme, *split_address(address)
