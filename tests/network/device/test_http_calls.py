"""Calls over HTTP: refusals mean what they mean over gRPC, and whatever cannot be read is damage, never an error of Python."""

import socket
import ssl
import subprocess
import sys
import threading
from datetime import UTC, datetime

import grpc
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.network.device import http_calls
from fedfleet.network.device.call_errors import (
    CallRefused,
    Damaged,
    NotFound,
    NoTls,
    UnknownDevice,
    Unreachable,
    WrongCertificate,
)
from fedfleet.network.device.device_process import Trust, line_to
from fedfleet.network.device.retries import call_with_retries
from fedfleet.network.device.server_line import split_server
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import encode_frame, encode_message
from fedfleet.network.security.certificates import CertificateRequest, make_certificates
from fedfleet.network.security.tls import ClientFiles, ServerFiles, client_context, server_context
from tests.network.cutting import line as relay_to
from tests.network.device.fake import Fake, swift
from tests.network.device.http_fake import HttpFake

CHECK = pb.CheckIn(caller=pb.Caller(client=4, secret=b"s" * 32))
OVER = encode_frame(pb.Answer(over=pb.Over(reason="that was all")))
CODES = grpc.StatusCode


@pytest.fixture
def fake():
    server = HttpFake()
    yield server
    server.stop()


@pytest.fixture
def line(fake):
    one = line_to(fake.url, Trust())
    yield one
    one.close()


@pytest.mark.parametrize(
    ("code", "kind"),
    [(CODES.FAILED_PRECONDITION, CallRefused), (CODES.PERMISSION_DENIED, CallRefused), (CODES.UNIMPLEMENTED, CallRefused),
     (CODES.UNAUTHENTICATED, UnknownDevice), (CODES.RESOURCE_EXHAUSTED, Unreachable), (CODES.UNAVAILABLE, Unreachable),
     (CODES.INVALID_ARGUMENT, Damaged), (CODES.NOT_FOUND, Damaged)],
)  # fmt: skip
def test_every_refusal_means_what_it_means_over_grpc(fake, line, code, kind):
    fake.failures.append(("Check", code, "bad\nline" + "x" * 1000))
    with pytest.raises(kind, match=r"bad\\n") as result:
        line.check(CHECK)
    assert type(result.value) is kind and len(str(result.value)) < 500
    assert line.check(CHECK)[0].over.reason == "that was all"


def test_a_connection_serves_many_calls_and_a_renewed_one_is_another(fake, line):
    for _ in range(3):
        line.check(CHECK)
    assert len(fake.open) == 1
    line.renew()
    line.check(CHECK)
    assert line.bytes_up == 4 * len(encode_message(CHECK)) and line.bytes_down > 4 and line.worked


def test_a_connection_that_the_server_closed_meanwhile_is_made_anew_without_a_pause(fake, line):
    line.check(CHECK)
    fake.restart()
    assert line.check(CHECK)[0].over.reason == "that was all"


def test_a_call_that_was_interrupted_does_not_spoil_the_next(fake, line):
    work = fake.give(b"x" * 300_000, inline=False)
    chunks = line.fetch(pb.FetchRequest(caller=CHECK.caller, name=work.model.name), 5.0)
    next(chunks)
    assert line.check(CHECK)[0].WhichOneof("what") == "work"
    with pytest.raises(NotFound, match="no such blob"):
        list(line.fetch(pb.FetchRequest(caller=CHECK.caller, name="x"), 5.0))


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: "
ANSWERS = {
    "nothing at all": (b"", Unreachable),
    "no HTTP": (b"hello\r\n\r\n", Damaged),
    "HTTP/2": (b"\0\0\6\4\0\0\0\0\0\0\3\0\0\0\x64", Damaged),
    "no status": (b"HTTP/1.1 OK\r\n\r\n", Damaged),
    "a status without a sentence": (b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", Damaged),
    "a page of a proxy": (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", Damaged),
    "a proxy whose server is away": (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>", Unreachable),
    "an error that is no object": (b'HTTP/1.1 403 No\r\nContent-Length: 13\r\n\r\n{"error": []}', Damaged),
    "no length": (b"HTTP/1.1 200 OK\r\n\r\n" + OVER, Damaged),
    "chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", Damaged),
    "half of it": (HEAD + b"%d\r\n\r\n" % (len(OVER) + 9) + OVER, Unreachable),
    "more than any answer": (HEAD + b"99999999\r\n\r\n" + bytes(4 << 20), Damaged),
    "a flipped byte": (HEAD + b"%d\r\n\r\n" % len(OVER) + OVER[:8] + bytes([OVER[8] ^ 4]) + OVER[9:], Damaged),
    "a line without end": (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000, Damaged),
    "headers without end": (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 2000, Damaged),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_that_cannot_be_used(name):
    data, kind = ANSWERS[name]
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            for reply in (data, HEAD + b"%d\r\n\r\n" % len(OVER) + OVER):
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(60)
                    connection.recv(1 << 16)
                    try:
                        connection.sendall(reply)
                        connection.shutdown(socket.SHUT_WR)
                        connection.recv(1)
                    except OSError:
                        continue

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        line = line_to("http://127.0.0.1:{1}".format(*listener.getsockname()), Trust())
        with pytest.raises(kind) as result:
            line.check(CHECK)
        assert type(result.value) is kind
        line.renew()
        assert line.check(CHECK)[0].over.reason == "that was all"
        line.close()
        thread.join(60)


def test_no_answer_in_time_is_damage_and_nobody_there_is_no_server(fake, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        line = http_calls.HttpLine("http://127.0.0.1:{1}".format(*silent.getsockname()), call_seconds=0.05)
        with pytest.raises(Damaged, match="DEADLINE_EXCEEDED"):
            line.check(CHECK)
        line.close()
    fake.stop()
    line = line_to(fake.url, Trust())
    with pytest.raises(Unreachable, match="refused"):
        line.check(CHECK)
    fake.start()


def test_a_large_report_goes_on_after_its_line_broke(fake):
    """The server answers before all of an upload has come: its word is heard, although it hung up."""
    with relay_to(fake.address) as relay:
        line = line_to(f"http://{relay.address}", Trust())
        head = pb.Report(caller=CHECK.caller, task=1, nbytes=9, crc32c=1, offset=5)
        receipt, _ = line.stream_report([encode_frame(head), b"abcd"], len(encode_frame(head)) + 4, 5.0)
        assert receipt.status == pb.Receipt.BUSY
        line.close()


@pytest.mark.parametrize(
    ("server", "trust", "says"),
    [
        ("ftp://a:1", Trust(), "neither over HTTP nor over gRPC"),
        ("http://127.0.0.1:99999", Trust(), "HOST:PORT"),
        ("https://a:1/path", Trust(), "HOST:PORT"),
        ("http://192.0.2.1:5", Trust(), "without TLS would expose .* write https://192.0.2.1:5, and give --ca"),
        ("http://127.0.0.1:5", Trust(tls=True), "without TLS, which the other options ask for"),
    ],
)
def test_an_address_that_is_none_is_refused(server, trust, says):
    with pytest.raises(BadInput, match=says):
        line_to(server, trust)


def test_the_port_of_a_url_may_be_left_out():
    assert split_server("https://a.example/") == ("https", "a.example", 443)
    assert split_server("http://[::1]") == ("http", "[::1]", 80)
    assert split_server("https://[::1]:8443") == ("https", "[::1]", 8443)


def test_no_grpc_is_loaded_by_a_device_that_calls_over_http():
    words = (
        "import sys; from fedfleet.network.device.device_process import Trust, line_to; line_to('http://127.0.0.1:1', Trust()); "
        "print([name for name in sys.modules if name.partition('.')[0] in ('grpc', 'torch', 'httptools')])"
    )
    assert subprocess.check_output([sys.executable, "-c", words], text=True).strip() == "[]"


# ---- TLS ---------------------------------------------------------------------------------------------------------


def test_a_device_and_a_server_that_do_not_agree_on_tls_are_told_so(tmp_path):
    now = datetime.now(UTC)
    made, other = (make_certificates(tmp_path / name, CertificateRequest(), now) for name in ("one", "two"))
    fake = HttpFake(tls=server_context(ServerFiles(made.certificate, made.key)))
    try:
        good = line_to(fake.url, Trust(ca=made.ca))
        assert good.check(CHECK)[0].over.reason == "that was all" and good.uses_tls
        good.close()
        for trust in (Trust(ca=other.ca), Trust()):
            stranger = line_to(fake.url, trust)
            with pytest.raises(WrongCertificate):
                stranger.check(CHECK)
            with pytest.raises(BadInput, match="cannot agree on TLS"):
                call_with_retries(lambda line=stranger: line.check(CHECK), stranger, swift(), 30.0)
            stranger.close()
        by_number = line_to(fake.url.replace("localhost", "127.0.0.2"), Trust(ca=made.ca))
        with pytest.raises((WrongCertificate, Unreachable)):
            by_number.check(CHECK)
        plain = line_to(f"http://{fake.address}", Trust())
        with pytest.raises(Unreachable):
            plain.check(CHECK)
        plain.close()
        with socket.create_connection(("127.0.0.1", fake.port)) as old:
            context = client_context(ClientFiles(made.ca))
            context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
            with pytest.raises(OSError, match=r"(?i)protocol|version|eof|reset"):
                context.wrap_socket(old, server_hostname="localhost")
    finally:
        fake.stop()
    open_server = Fake()
    try:
        private = line_to(f"https://{open_server.address}", Trust(ca=made.ca))
        with pytest.raises(NoTls):
            private.check(CHECK)
        private.close()
    finally:
        open_server.stop()
