"""The head of a request of HTTP/1.1 while it comes: its target, the headers that mean something, and their bytes."""

from __future__ import annotations

from typing import Any

from fedfleet.network.frontend.http_exchange import KNOWN, MAX_HEAD_BYTES, BadRequest, head_refusal


class RequestHead:
    """One head after the other: `begin` forgets the one before, but not the bytes; the connection counts those."""

    __slots__ = ("headers", "is_open", "nbytes", "url")

    def __init__(self) -> None:
        self.url, self.headers = b"", dict[bytes, bytes]()
        self.nbytes = 0
        self.is_open = False  # has it begun, and not ended?

    def begin(self) -> None:
        """A request begins."""
        self.url, self.headers, self.is_open = b"", {}, True

    def add_header(self, name: bytes, value: bytes) -> BadRequest | None:
        """One of its headers; what is wrong with it."""
        name, refusal = name.lower(), None
        if name in KNOWN:
            if name in self.headers:
                refusal = BadRequest(f"the request has two headers called {name.decode()}")
            self.headers[name] = value
        self.nbytes += len(name) + len(value)
        return refusal

    def refusal(self, parser: Any) -> BadRequest | None:
        """What is wrong with the whole of it, of which the parser knows the version."""
        headers, version = self.headers, parser.get_http_version()
        if version not in ("1.1", "1.0"):
            return BadRequest("this port speaks HTTP/1.1")
        if parser.should_upgrade():
            return upgrade_refusal()
        if self.nbytes + len(self.url) > MAX_HEAD_BYTES:
            return head_too_large()
        if not headers.get(b"host") and version == "1.1" and b"transfer-encoding" not in headers:
            return BadRequest("the request names no host")
        return head_refusal(headers, self.url)


def upgrade_refusal() -> BadRequest:
    """Of a request to speak another protocol."""
    return BadRequest("this port speaks HTTP/1.1 and upgrades to nothing else")


def head_too_large() -> BadRequest:
    """Of a head that nobody keeps."""
    return BadRequest(f"the head of the request is longer than {MAX_HEAD_BYTES} bytes", 431)
