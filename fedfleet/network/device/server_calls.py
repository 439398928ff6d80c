"""Calling a server over gRPC: one channel, which can be made anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import grpc

from fedfleet.network.device.call_errors import Damaged, call_error
from fedfleet.network.device.server_line import CALL_SECONDS, ServerLine
from fedfleet.network.protocol.frames import (
    CHANNEL_OPTIONS,
    CHUNK,
    INLINE_BYTES,
    MAX_HEAD_BYTES,
    method_path,
    split_address,
)

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


class Connection(ServerLine):
    """A line over gRPC."""

    def __init__(
        self, server: str, credentials: grpc.ChannelCredentials | None = None, *, call_seconds: float = CALL_SECONDS
    ) -> None:
        super().__init__(server, uses_tls=credentials is not None, call_seconds=call_seconds)
        host, port = split_address(server)
        self._target, self._credentials = f"{host}:{port}", credentials
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

    def _ask(self, method: str, data: bytes, seconds: float) -> bytes:
        (reply,) = self._guarded(lambda: [self._unary[method](data, timeout=seconds)])
        return reply

    def _ask_chunks(self, method: str, data: bytes, seconds: float) -> Iterator[bytes]:
        del method
        return self._guarded(lambda: self._fetch(data, timeout=seconds))

    def _send_chunks(self, method: str, pieces: Iterable[bytes], nbytes: int, seconds: float) -> bytes:
        del method, nbytes
        (reply,) = self._guarded(lambda: [self._stream(pieces, timeout=seconds)])
        return reply

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
