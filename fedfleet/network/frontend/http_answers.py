"""Answers of HTTP: heads, refusals, and which status each refusal of the service has."""

from __future__ import annotations

import json
import math

from fedfleet.network.frontend.refusals import CallRefused

JSON, BYTES = b"application/json", b"application/octet-stream"
_ALWAYS = b"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
_STATUSES = {
    "INVALID_ARGUMENT": 400, "UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403, "NOT_FOUND": 404, "UNIMPLEMENTED": 404,
    "DEADLINE_EXCEEDED": 408, "FAILED_PRECONDITION": 409, "RESOURCE_EXHAUSTED": 429, "UNAVAILABLE": 503, "UNKNOWN": 500,
}  # fmt: skip
_REASONS = {
    200: b"OK", 206: b"Partial Content", 304: b"Not Modified", 400: b"Bad Request", 401: b"Unauthorized",
    403: b"Forbidden", 404: b"Not Found", 405: b"Method Not Allowed", 408: b"Request Timeout", 409: b"Conflict",
    411: b"Length Required", 413: b"Content Too Large", 416: b"Range Not Satisfiable", 417: b"Expectation Failed",
    429: b"Too Many Requests", 431: b"Request Header Fields Too Large", 500: b"Internal Server Error", 503: b"Service Unavailable",
}  # fmt: skip


def answer_head(status: int, nbytes: int, kind: bytes, date: bytes, extra: bytes, *, close: bool) -> bytes:
    """The head of an answer of HTTP/1.1; `extra` are whole lines.

    >>> answer_head(200, 2, b"text/plain", b"", b"", close=True).split(b"\\r\\n")[:3]
    [b'HTTP/1.1 200 OK', b'Content-Type: text/plain', b'Content-Length: 2']
    """
    first = b"HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n" % (status, _REASONS[status], kind, nbytes)
    return b"".join((first, _ALWAYS, date, extra, b"Connection: close\r\n\r\n" if close else b"\r\n"))


def error_body(error: CallRefused) -> tuple[int, bytes, bytes, bytes]:
    """Status, type, body and headers of the answer to a call that is refused."""
    body = json.dumps({"error": {"code": error.code, "message": str(error)}}).encode()
    extra = b""
    if error.code == "RESOURCE_EXHAUSTED":
        extra = b"Retry-After: %d\r\n" % max(1, math.ceil(getattr(error, "seconds", 1.0)))
    elif error.code == "UNAUTHENTICATED":
        extra = b"WWW-Authenticate: Bearer\r\n"
    return getattr(error, "status", 0) or _STATUSES.get(error.code, 500), JSON, body, extra
