"""A web server on the loopback that can cut, lie, stall and ignore what it is asked for."""

import hashlib
import random
import re
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from fedfleet.app.datasets.catalogue import RemoteFile

BODY = random.Random(1).randbytes(700_000)
SHA = hashlib.sha256(BODY).hexdigest()


@dataclass
class Shelf:
    """What the server has, how it behaves, and what it was asked for."""

    url: str = ""
    body: bytes = BODY
    tag: str | None = '"v1"'
    knows_ranges: bool = True
    tells_length: bool = True
    cut_after: int | None = None
    stall_seconds: float = 0.0
    status: int | None = None
    shift: int = 0  # answers a range so many bytes too late
    asked: list = field(default_factory=list)


def handler(shelf):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            shelf.asked.append({k.lower(): v for k, v in self.headers.items()})
            if shelf.status:
                self.send_error(shelf.status)
                return
            time.sleep(shelf.stall_seconds)
            begin = self.begin()
            if begin is None:
                return
            rest = shelf.body[begin:]
            if shelf.tells_length:
                self.send_header("Content-Length", str(len(rest)))
            if shelf.tag:
                self.send_header("ETag", shelf.tag)
            self.end_headers()
            self.wfile.write(rest[: shelf.cut_after])

        def begin(self):
            """Answer the head for where the body begins; None when there is nothing from there on."""
            wanted = re.match(r"bytes=(\d+)-$", self.headers.get("Range", ""))
            changed = self.headers.get("If-Range") not in (None, shelf.tag)
            if not wanted or not shelf.knows_ranges or changed:
                self.send_response(200)
                return 0
            begin = int(wanted[1]) + shelf.shift
            if begin >= len(shelf.body):
                self.send_error(416)
                return None
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{len(shelf.body) - 1}/{len(shelf.body)}")
            return begin

        def log_message(self, *words):
            pass

    return Handler


class Server(ThreadingHTTPServer):
    """Says nothing when a client goes away in the middle."""

    def handle_error(self, request, client_address):
        pass


def known(shelf, **changes):
    return RemoteFile(**({"name": "file.bin", "url": shelf.url, "size": len(BODY), "sha256": SHA} | changes))


def beside(target):
    """The names in the target's folder."""
    return sorted(p.name for p in target.parent.iterdir()) if target.parent.exists() else []
