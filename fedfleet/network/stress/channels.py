"""How a stress run's processes reach each other: channels and the calls over them, with or without TLS."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from fedfleet.network.protocol.frames import CHANNEL_OPTIONS, method_path
from fedfleet.network.security.tls import ClientFiles, ServerFiles, client_context, client_credentials, server_credentials
from fedfleet.network.stress.http_channel import HttpChannel

HTTP = "http:"  # before the address of a server that is called over HTTP
_SIZES = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))
SERVER = (*_SIZES, ("grpc.so_reuseport", 1))
# A pool of its own: else all channels to one address would share one connection, and so one frontend.
CHANNEL = (*CHANNEL_OPTIONS, ("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1))


class Target(NamedTuple):
    """A server, and the authority by which it is trusted ("": no TLS)."""

    address: str
    ca: str = ""


def channel_to(target: Target, options: Sequence[tuple[str, Any]] = CHANNEL) -> Any:
    """A connection of its own to a server, over HTTP if its address begins so; else over gRPC."""
    if target.address.startswith(HTTP):
        context = client_context(ClientFiles(Path(target.ca))) if target.ca else None
        return HttpChannel(target.address.removeprefix(HTTP), context)
    if not target.ca:
        return grpc.aio.insecure_channel(target.address, options=options)
    return grpc.aio.secure_channel(target.address, client_credentials(ClientFiles(Path(target.ca))), options=options)


def credentials_for(certificate: str, key: str) -> grpc.ServerCredentials | None:
    """What a server shows; None without TLS."""
    return server_credentials(ServerFiles(Path(certificate), Path(key))) if certificate else None


class Line:
    """A channel to the server, and the calls over it."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.check = channel.unary_unary(method_path("Check"))
        self.hand = channel.unary_unary(method_path("Hand"))
        self.stream = channel.stream_unary(method_path("HandStream"))
        self.fetch = channel.unary_stream(method_path("Fetch"))
