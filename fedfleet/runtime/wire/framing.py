"""What crosses the wire, as bytes and back: trees in safetensors form, addresses, the limits of a channel."""

from __future__ import annotations

import re

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Offer
from fedfleet.core.trees import Tree

# Raised whenever one side would misunderstand the other; see proto/fleet.proto.
PROTOCOL = 1
# A name, an IPv4 address, or an IPv6 address in brackets; then the port.
_ADDRESS = re.compile(r"(?P<host>[^\s:/\[\]]+|\[[0-9a-fA-F:.]+\]):(?P<port>[0-9]{1,5})")
CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),  # a proxy of the environment is for web pages, not for the fleet
)


_EXTRA = "extra|"  # no module can name a parameter so


class Garbled(Exception):
    """Bytes from the other side that are no tree; its text is the reason."""


def tree_to_bytes(tree: Tree) -> bytes:
    """A tree in safetensors form: typed, checked, never code."""
    # Safetensors reads raw memory, so leaves must be contiguous; asarray, unlike ascontiguousarray, leaves scalars be.
    return save({name: np.asarray(leaf, order="C") for name, leaf in tree.items()})


def tree_from_bytes(data: bytes) -> Tree:
    """The inverse of `tree_to_bytes`; whatever is wrong with the bytes is `Garbled`.

    >>> tree_from_bytes(tree_to_bytes({"w": np.float32(2.0)}))
    {'w': array(2., dtype=float32)}
    """
    try:
        found = load(data)
    except SafetensorError as wrong:
        raise Garbled(f"its tensors are not in safetensors form ({wrong})") from None
    except (KeyError, ValueError, TypeError) as wrong:  # a type that numpy does not know, a shape that does not fit
        raise Garbled(f"its tensors have a type or shape that cannot be read ({wrong})") from None
    return {name: found[name] for name in sorted(found)}  # safetensors names them in no fixed order


def offer_to_bytes(offer: Offer) -> bytes:
    """An offer in safetensors form: the model's leaves under their own names, what else goes down behind a mark."""
    return tree_to_bytes({**offer.params, **{_EXTRA + n: v for n, v in offer.extra.items()}})


def offer_from_bytes(data: bytes) -> Offer:
    """The inverse of `offer_to_bytes`."""
    found = tree_from_bytes(data)
    extra = {n.removeprefix(_EXTRA): v for n, v in found.items() if n.startswith(_EXTRA)}
    return Offer({n: v for n, v in found.items() if not n.startswith(_EXTRA)}, extra)


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
