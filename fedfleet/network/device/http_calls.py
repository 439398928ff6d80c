"""Calling a server over HTTP/1.1 with the standard library alone: one connection, which can be made anew."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, RemoteDisconnected
from typing import Any

from fedfleet.core.errors import Refused
from fedfleet.network.device.call_errors import Damaged, NoTls, Unreachable, WrongCertificate, status_error
from fedfleet.network.device.server_line import CALL_SECONDS, ServerLine, split_server
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import CHUNK, INLINE_BYTES, MAX_HEAD_BYTES

_PATH, _SHARD_PATH = "/v1/call/", "/v1/shard"
Head = tuple[str, str, dict[str, str]]  # verb, path and headers of a request without a body
_HEADERS = {"Content-Type": "application/octet-stream"}
_MAX_REPLY_BYTES = INLINE_BYTES + CHUNK + 2 * MAX_HEAD_BYTES
_MAX_ERROR_BYTES = 1 << 16
_CONNECT_SECONDS = 20.0  # far links and busy servers take seconds; a refusal is heard at once
_LEAST_SECONDS = 0.01  # of a wait: 0 would mean not to wait at all
_BUSY_STATUSES = (502, 503, 504)  # of a proxy before the server, which says nothing in JSON


class _Unanswered(Exception):
    """A connection that had been idle ended before a byte of the answer: the server had closed it meanwhile."""


class HttpLine(ServerLine):
    """A line over HTTP; with a `context` of TLS, or without for a server on this machine."""

    def __init__(self, server: str, context: ssl.SSLContext | None = None, *, call_seconds: float = CALL_SECONDS) -> None:
        super().__init__(server, uses_tls=context is not None, call_seconds=call_seconds)
        _, host, self._port = split_server(server)
        self._host, self._context = host.strip("[]"), context
        self._http: HTTPConnection | None = None
        self._response: HTTPResponse | None = None
        self._at_call = False  # is a call under way? One that was interrupted leaves the connection in the middle of it

    def renew(self) -> None:
        """Hang up; the next call makes another connection."""
        http, response = self._http, self._response
        self._http, self._response, self._at_call = None, None, False
        for each in (response, http):  # an answer holds the socket too
            if each is not None:
                with suppress(OSError):
                    each.close()

    def close(self) -> None:
        """Hang up."""
        self.renew()

    def shard(self, caller: pb.Caller, most: int) -> bytes:
        """The samples of a rehearsal that the run deals to this client, of at most so many bytes."""
        head = ("GET", _SHARD_PATH, {"Authorization": f"Bearer {caller.client}:{caller.secret.hex()}"})
        chunks, size = list[bytes](), 0
        for chunk in self._request("Shard", (), 0, time.monotonic() + self.call_seconds, again=True, head=head):
            chunks.append(chunk)
            size += len(chunk)
            if size > most:
                self.renew()
                raise Refused(f"the samples that the run deals to this client have more than {most} bytes (--max-bytes)")
        self.bytes_down += size
        return b"".join(chunks)

    def _ask(self, method: str, data: bytes, seconds: float) -> bytes:
        return self._collect(self._request(method, [data], len(data), time.monotonic() + seconds, again=True))

    def _send_chunks(self, method: str, pieces: Iterable[bytes], nbytes: int, seconds: float) -> bytes:
        return self._collect(self._request(method, pieces, nbytes, time.monotonic() + seconds))

    def _ask_chunks(self, method: str, data: bytes, seconds: float) -> Iterator[bytes]:
        return self._request(method, [data], len(data), time.monotonic() + seconds, again=True)

    def _collect(self, chunks: Iterator[bytes]) -> bytes:
        reply, size = list[bytes](), 0
        for chunk in chunks:
            reply.append(chunk)
            size += len(chunk)
            if size > _MAX_REPLY_BYTES:
                self.renew()
                raise Damaged(f"an answer of more than {_MAX_REPLY_BYTES} bytes")
        return reply[0] if len(reply) == 1 else b"".join(reply)

    def _request(
        self, method: str, pieces: Iterable[bytes], nbytes: int, until: float, *, again: bool = False, head: Head | None = None
    ) -> Iterator[bytes]:
        """The chunks of the answer to one request. Whatever goes wrong is one of `call_errors`; the connection then ends."""
        if self._at_call:
            self.renew()
        self._at_call = True
        try:
            try:
                response = self._exchange(method, pieces, nbytes, until, head)
            except _Unanswered:
                self.renew()
                if not again:
                    raise Unreachable("UNAVAILABLE: the connection ended before the call") from None
                self._at_call = True
                response = self._exchange(method, pieces, nbytes, until, head)
            if response.status != 200:
                raise self._refusal(response)
            if response.length is None:
                raise Damaged("an answer without its length")
            while response.length:
                self._wait_until(until)
                chunk = response.read(min(CHUNK, response.length))
                if not chunk:
                    raise Unreachable("UNAVAILABLE: the answer broke off")
                yield chunk
            response.read()
            if response.will_close:
                self.renew()
            self._at_call = False
        except ssl.SSLCertVerificationError as error:
            self.renew()
            raise WrongCertificate(f"UNAVAILABLE: {error.verify_message or error.reason}") from None
        except ssl.SSLError as error:
            self.renew()
            raise (Unreachable if self.worked else NoTls)(f"UNAVAILABLE: {error.reason or error}") from None
        except TimeoutError:
            self.renew()
            raise Damaged("DEADLINE_EXCEEDED: no answer came in time") from None
        except OSError as error:
            self.renew()
            raise Unreachable(f"UNAVAILABLE: {error.strerror or error or type(error).__name__}") from None
        except (HTTPException, ValueError) as error:  # what came is no answer of HTTP
            self.renew()
            raise Damaged(f"an answer that cannot be read ({type(error).__name__})") from None

    def _exchange(self, method: str, pieces: Iterable[bytes], nbytes: int, until: float, head: Head | None = None) -> HTTPResponse:
        """Send a request; the head of its answer."""
        http, is_fresh = self._http, self._http is None
        if http is None:
            http = self._http = self._connect(until)
        self._wait_until(until)
        broken: OSError | None = None
        try:
            if head is None:
                http.request("POST", _PATH + method, _Sized(pieces), {**_HEADERS, "Content-Length": str(nbytes)})
            else:
                http.request(head[0], head[1], headers=head[2])
        except ssl.SSLError:
            raise
        except (BrokenPipeError, ConnectionResetError) as error:
            if not is_fresh:
                raise _Unanswered from None
            broken = error  # the server may have answered before all was sent
        try:
            self._wait_until(until)
            self._response = http.getresponse()
            return self._response
        except RemoteDisconnected:
            if is_fresh or broken is not None:
                raise
            raise _Unanswered from None
        except ConnectionResetError:
            if is_fresh or broken is not None:
                raise
            raise _Unanswered from None

    def _connect(self, until: float) -> HTTPConnection:
        seconds = max(_LEAST_SECONDS, min(_CONNECT_SECONDS, until - time.monotonic()))
        if self._context is None:
            http = HTTPConnection(self._host, self._port, timeout=seconds)
        else:
            http = HTTPSConnection(self._host, self._port, timeout=seconds, context=self._context)
        http.connect()
        return http

    def _wait_until(self, until: float) -> None:
        """No wait of the connection goes beyond this moment."""
        if self._http is not None and self._http.sock is not None:
            self._http.sock.settimeout(max(_LEAST_SECONDS, until - time.monotonic()))

    def _refusal(self, response: HTTPResponse) -> Exception:
        """What a status other than 200 means; its connection ends, unless the server's sentence came whole."""
        code, text = "", ""
        with suppress(ValueError, KeyError, TypeError, HTTPException):
            error: Any = json.loads(response.read(_MAX_ERROR_BYTES))["error"]
            code, text = str(error["code"]), str(error["message"])
        if not code or response.will_close or not response.isclosed():
            self.renew()
        self._at_call = False
        if code:
            return status_error(self.server, code, text)
        if response.status in _BUSY_STATUSES:
            return Unreachable(f"UNAVAILABLE: status {response.status}")
        return Damaged(f"an answer with status {response.status} and without a sentence of a FedFleet server")


class _Sized:
    """Pieces of a body whose length stands in a header; so http.client sends them as they are."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._pieces)
