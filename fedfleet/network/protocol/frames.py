"""What crosses the wire, as bytes and back: frames of a head and a payload, offers, addresses, the limits of a channel.

A frame is four bytes (the length of the head, little-endian), the head (a protobuf message) and the payload (raw bytes): tensors
are never copied into a message. Whatever is wrong with bytes from elsewhere is `Refused`.

Each message ends with its own checksum, as a field that other readers of protobuf pass over. A payload has its own in its head.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import DecodeError, Message

from fedfleet.core.errors import BadInput, Refused
from fedfleet.network.protocol import checksums

if TYPE_CHECKING:  # a device that waits for work has no use for tensors, and numpy is a third of its memory
    from fedfleet.core.codec import Codec
    from fedfleet.core.parts import Offer
    from fedfleet.core.trees import Tree

# Raised whenever one side would misunderstand the other; see proto/fleet.proto.
PROTOCOL = 4
CHUNK = 1 << 20  # bytes of a streamed chunk at most
INLINE_BYTES = 1 << 20  # a payload of at most so many bytes travels in one message, a larger one in chunks
MAX_HEAD_BYTES = 1 << 16
MOST_STATS = 16  # statistics of a report
FIRST_EVAL_TASK = 1 << 40  # tasks of evaluating have numbers from here on, which no task of training reaches
_LENGTH = struct.Struct("<I")
# The last field of a message: number 2047, eight bytes, of which four are constant and four the CRC-32C of all before the field.
_CHECK_MARK = b"\xfa\x7f\x08FFck"
_CHECK_BYTES = len(_CHECK_MARK) + 4
# A name, an IPv4 address, or an IPv6 address in brackets; then the port.
_ADDRESS = re.compile(r"(?P<host>[^\s:/\[\]]+|\[[0-9a-fA-F:.]+\]):(?P<port>[0-9]{1,5})")
CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),  # a proxy of the environment is for web pages, not for the fleet
)
Head = TypeVar("Head", bound=Message)

SERVICE = "fedfleet.wire.Fleet"


def method_path(method: str) -> str:
    """The full name of a method of the service, as gRPC wants it."""
    return f"/{SERVICE}/{method}"


def is_eval_task(task: int) -> bool:
    """Is this the number of a task of evaluating?"""
    return task >= FIRST_EVAL_TASK


def crc32c(data: bytes | bytearray | memoryview) -> int:
    """The CRC-32C of some bytes, without a copy.

    >>> hex(crc32c(memoryview(b"123456789")))
    '0xe3069283'
    """
    if isinstance(data, bytes):
        return checksums.value(data)
    import numpy as np

    view = np.frombuffer(data, np.uint8)
    view.flags.writeable = False  # the library takes nothing else
    return checksums.value(view)  # pyright: ignore[reportArgumentType]


def encode_message(message: Message) -> bytes:
    """A message as it travels: with its checksum as its last field."""
    data = message.SerializeToString()
    return with_checksum(data)


def with_checksum(data: bytes) -> bytes:
    """The bytes of a message, and their checksum as its last field."""
    return b"".join((data, _CHECK_MARK, checksums.value(data).to_bytes(4, "little")))


def has_checksum(data: bytes | memoryview) -> bool:
    """Does a message end with a checksum?"""
    return data[-_CHECK_BYTES:-4] == _CHECK_MARK


def encode_frame(head: Message, payload: bytes | memoryview = b"") -> bytes:
    """A head and its payload as one piece of bytes."""
    head_data = encode_message(head)
    return b"".join((_LENGTH.pack(len(head_data)), head_data, payload))


def decode_frame(data: bytes | memoryview, kind: type[Head]) -> tuple[Head, memoryview]:
    """The inverse of `encode_frame`; the payload is a view of the same bytes."""
    head, payload = split_frame(data)
    return parse_message(head, kind), payload


def split_frame(data: bytes | memoryview) -> tuple[memoryview, memoryview]:
    """The bytes of the head of a frame, and its payload."""
    view = memoryview(data)
    if len(view) < _LENGTH.size:
        raise Refused("it is shorter than any frame")
    (length,) = _LENGTH.unpack(view[: _LENGTH.size])
    if length > MAX_HEAD_BYTES or length > len(view) - _LENGTH.size:
        raise Refused(f"the head of its frame claims {length} bytes, but fewer arrived, or the limit is lower")
    return view[_LENGTH.size : _LENGTH.size + length], view[_LENGTH.size + length :]


def parse_message(data: bytes | memoryview, kind: type[Head]) -> Head:
    """A message of this kind from its bytes. A checksum at its end must be right; a device of another maker may leave it out."""
    content = bytes(data)
    if has_checksum(content):
        stored, content = int.from_bytes(content[-4:], "little"), content[:-_CHECK_BYTES]
        if checksums.value(content) != stored:
            raise Refused("it was damaged on its way: its checksum is wrong")
    try:
        return kind.FromString(content)
    except (DecodeError, ValueError, UnicodeDecodeError) as error:
        raise Refused(f"its head is not a valid {kind.__name__} ({error})") from None


def extend_crc32c(crc: int, data: bytes) -> int:
    """The CRC-32C of some bytes and these, from that of the bytes before.

    >>> hex(extend_crc32c(crc32c(b"12345"), b"6789"))
    '0xe3069283'
    """
    return checksums.extend(crc, data)


def offer_to_bytes(offer: Offer) -> bytes:
    """An offer as it travels: the model's leaves under their own names, what else goes down behind a mark; or in its code."""
    from fedfleet.core.tensor_format import pack_tree
    from fedfleet.learn.compression import offer_tree

    return pack_tree(offer_tree(offer)) if offer.encoded is None else offer.encoded()


def offer_from_bytes(data: bytes, codec: Codec | None = None, like: Tree | None = None) -> Offer:
    """The inverse of `offer_to_bytes`, by the codec in which the model comes; `like` is such a model."""
    from fedfleet.core.parts import Offer
    from fedfleet.core.tensor_format import unpack_tree
    from fedfleet.learn.codecs.messages import decode_bytes
    from fedfleet.learn.compression import EXTRA

    leaves = unpack_tree(data) if codec is None else decode_bytes(codec, data, like or {})
    extra = {n.removeprefix(EXTRA): v for n, v in leaves.items() if n.startswith(EXTRA)}
    return Offer({n: v for n, v in leaves.items() if not n.startswith(EXTRA)}, extra)


def split_address(text: str, *, any_port: bool = False) -> tuple[str, int]:
    """Host and port of `host:port`; port 0 only where any free port will do.

    >>> split_address("127.0.0.1:50051")
    ('127.0.0.1', 50051)
    """
    match = _ADDRESS.fullmatch(text)
    port = int(match["port"]) if match else -1
    if match is None or not (0 if any_port else 1) <= port <= 65535:
        raise BadInput(f"the address {text!r} is not HOST:PORT; write for example 127.0.0.1:50051")
    return match["host"], port
