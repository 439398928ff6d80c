"""What crosses the wire, as bytes and back: offers in the container of all tensors, addresses, the limits of a channel."""

from __future__ import annotations

import re

from fedfleet.core.coding import Codec
from fedfleet.core.container import packed, unpacked
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Offer
from fedfleet.core.trees import Tree
from fedfleet.learn.codecs.applying import received
from fedfleet.learn.compression import EXTRA, travelling

# Raised whenever one side would misunderstand the other; see proto/fleet.proto.
PROTOCOL = 2
# A name, an IPv4 address, or an IPv6 address in brackets; then the port.
_ADDRESS = re.compile(r"(?P<host>[^\s:/\[\]]+|\[[0-9a-fA-F:.]+\]):(?P<port>[0-9]{1,5})")
CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),  # a proxy of the environment is for web pages, not for the fleet
)


def offer_to_bytes(offer: Offer) -> bytes:
    """An offer as it travels: the model's leaves under their own names, what else goes down behind a mark; or in its code."""
    return packed(travelling(offer)) if offer.encoded is None else offer.encoded()


def offer_from_bytes(data: bytes, codec: Codec | None = None, like: Tree | None = None) -> Offer:
    """The inverse of `offer_to_bytes`, by the codec in which the model comes; `like` is such a model."""
    found = unpacked(data) if codec is None else received(codec, data, like or {})
    extra = {n.removeprefix(EXTRA): v for n, v in found.items() if n.startswith(EXTRA)}
    return Offer({n: v for n, v in found.items() if not n.startswith(EXTRA)}, extra)


def split_address(text: str, *, any_port: bool = False) -> tuple[str, int]:
    """Host and port of `host:port`; port 0 only where any free port will do.

    >>> split_address("127.0.0.1:50051")
    ('127.0.0.1', 50051)
    """
    found = _ADDRESS.fullmatch(text)
    port = int(found["port"]) if found else -1
    if found is None or not (0 if any_port else 1) <= port <= 65535:
        raise BadInput(f"the address {text!r} is not HOST:PORT; write such as 127.0.0.1:50051")
    return found["host"], port
