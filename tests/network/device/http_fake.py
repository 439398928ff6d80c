"""The tiny server of `fake` behind HTTP, by the standard library: another maker's reading of the same protocol."""

import json
import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.network.device.fake import CHUNK_BYTES, Fake

STATUSES = {"UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403, "NOT_FOUND": 404, "UNIMPLEMENTED": 404, "INVALID_ARGUMENT": 400,
            "FAILED_PRECONDITION": 409, "RESOURCE_EXHAUSTED": 429, "UNAVAILABLE": 503}  # fmt: skip


class Aborted(Exception):
    """A method ends its call with this status."""

    def __init__(self, code, text):
        self.code, self.text = code.name, text


class Context:
    """What methods get: only its `abort` is used."""

    def abort(self, code, text):
        raise Aborted(code, text)


class HttpFake(Fake):
    """The same scripts, and `tls` for a server of HTTPS."""

    def __init__(self, *given, tls=None, **named):
        self.tls, self.open = tls, set()
        super().__init__(*given, **named)

    @property
    def url(self):
        return f"http{'s' if self.tls else ''}://{'localhost' if self.tls else '127.0.0.1'}:{self.port}"

    def start(self):
        fake = self
        methods = {"Enrol": self.enrol, "Check": self.check, "Hand": self.hand, "Held": self.ask_held, "Leave": self.leave}
        self.methods = {name: self.noted(name, method) for name, method in methods.items()}
        self.methods["HandStream"] = self.noted("HandStream", self.hand_stream)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                fake.open.add(self.connection)

            def finish(self):
                fake.open.discard(self.connection)
                with suppress(OSError):
                    super().finish()

            def do_POST(self):
                name, nbytes = self.path.removeprefix("/v1/call/"), int(self.headers["Content-Length"])
                try:
                    if name == "Fetch":
                        self.send_blob(self.rfile.read(nbytes))
                        return
                    if name == "HandStream":
                        answer = fake.methods[name](self.pieces(nbytes), Context())
                    else:
                        answer = fake.methods[name](self.rfile.read(nbytes), Context())
                    status = 200
                except Aborted as error:
                    answer = json.dumps({"error": {"code": error.code, "message": error.text}}).encode()
                    status = STATUSES[error.code]
                    self.close_connection = name == "HandStream"
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                if self.close_connection:
                    self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(answer)

            def pieces(self, nbytes):
                head = self.rfile.read(4)
                frame = head + self.rfile.read(int.from_bytes(head, "little"))
                yield frame
                left = nbytes - len(frame)
                while left:
                    chunk = self.rfile.read(min(left, CHUNK_BYTES))
                    left -= len(chunk)
                    yield chunk

            def send_blob(self, data):
                chunks, sent = fake.fetch(data, Context()), 0
                try:
                    first = next(chunks, b"")
                except Aborted as error:
                    if error.text == "cut":
                        self.close_connection = True
                        return
                    raise
                from fedfleet.network.protocol import fleet_pb2 as pb
                from fedfleet.network.protocol.frames import parse_message

                request = parse_message(data, pb.FetchRequest)
                self.send_response(200)
                self.send_header("Content-Length", str(len(fake.blobs[request.name]) - request.offset))
                self.end_headers()
                try:
                    while first:
                        self.wfile.write(first)
                        sent += len(first)
                        first = next(chunks, b"")
                except Aborted:
                    self.close_connection = True

            def log_message(self, *given):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        if self.tls is not None:
            self.server.socket = self.tls.wrap_socket(self.server.socket, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        for connection in list(self.open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.thread.join()


over_both = pytest.mark.parametrize("fake", [Fake, HttpFake], ids=["gRPC", "HTTP"], indirect=True)
