"""One connection: what can be read in two ways is refused, what is slow or large ends, and nothing of it stays in memory."""

from __future__ import annotations

import asyncio
import json
import random
import re
import ssl
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fedfleet.network.frontend import http_connection, http_door
from fedfleet.network.frontend.http_exchange import MAX_HEAD_BYTES
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import encode_message
from fedfleet.network.security.certificates import CertificateFiles, CertificateRequest, make_certificates
from fedfleet.network.security.tls import ClientFiles, client_context
from tests.network.frontend.http_stage import HttpStage, hurry, perform_http
from tests.network.stage import until

STATUS = b"GET /v1/status HTTP/1.1\r\nHost: here\r\n"
CHECK = b"POST /v1/check HTTP/1.1\r\nHost: here\r\n"
BAD = {
    "two lengths that differ": (400, CHECK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"),
    "two lengths that are the same": (400, CHECK + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}"),
    "a list of lengths": (400, CHECK + b"Content-Length: 2, 2\r\n\r\n{}"),
    "a length with a sign": (400, CHECK + b"Content-Length: +2\r\n\r\n{}"),
    "a length below zero": (400, CHECK + b"Content-Length: -2\r\n\r\n{}"),
    "a length in hexadecimal": (400, CHECK + b"Content-Length: 0x2\r\n\r\n{}"),
    "a length that is nothing": (400, CHECK + b"Content-Length:\r\n\r\n{}"),
    "a length beyond all numbers": (400, CHECK + b"Content-Length: 99999999999999999999999\r\n\r\n{}"),
    "a body in chunks": (411, CHECK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
    "chunks and a length": (400, CHECK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
    "chunks in another coding": (400, CHECK + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
    "two codings": (400, CHECK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"),
    "bad chunks": (411, CHECK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n"),
    "a space before the colon": (400, CHECK + b"Content-Length : 2\r\n\r\n{}"),
    "a header over two lines": (400, CHECK + b"Content-Length:\r\n 2\r\n\r\n{}"),
    "a zero byte": (400, STATUS + b"X: a\0b\r\n\r\n"),
    "a lone carriage return": (400, STATUS + b"X: a\rb\r\n\r\n"),
    "no host": (400, b"GET /v1/status HTTP/1.1\r\n\r\n"),
    "two hosts": (400, STATUS + b"Host: there\r\n\r\n"),
    "two callers": (400, STATUS + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n"),
    "an absolute target": (400, b"GET http://there/v1/status HTTP/1.1\r\nHost: here\r\n\r\n"),
    "a tunnel": (400, b"CONNECT there:443 HTTP/1.1\r\nHost: here\r\n\r\n"),
    "an upgrade": (400, STATUS + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n"),
    "HTTP/2 without a word": (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "another version": (400, b"GET /v1/status HTTP/3.7\r\nHost: here\r\n\r\n"),
    "no version": (400, b"GET /v1/status\r\n\r\n"),
    "a handshake of TLS": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40)),
    "no request": (400, b"hello\r\n\r\n"),
    "an expectation": (417, CHECK + b"Expect: a miracle\r\nContent-Length: 2\r\n\r\n{}"),
    "a head that is too long": (431, STATUS + b"X: " + b"a" * MAX_HEAD_BYTES + b"\r\n\r\n"),
    "a path that is too long": (431, b"GET /" + b"a" * MAX_HEAD_BYTES + b" HTTP/1.1\r\nHost: here\r\n\r\n"),
}


def statuses(data: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1.1 ([0-9]{3}) ", data)]


def test_what_can_be_read_in_two_ways_is_refused_and_nothing_after_it_is_read(tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        for name, (status, data) in BAD.items():
            answer = await http.raw(data + STATUS + b"\r\n")
            assert statuses(answer) == [status], (name, answer)
            head, _, body = answer.partition(b"\r\n\r\n")
            assert b"Connection: close" in head, name
            assert json.loads(body)["error"]["message"], name
        endless = await http.raw(STATUS + b"X: y\r\n" * (MAX_HEAD_BYTES // 6 + 1))
        assert statuses(endless) == [431]

    perform_http(tmp_path, act)


def test_a_request_before_the_answer_to_the_one_before_is_refused_after_it(tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        answer = await http.raw(STATUS + b"\r\n" + STATUS + b"\r\n" + STATUS + b"\r\n")
        assert statuses(answer) == [200, 400] and b"one by one" in answer

    perform_http(tmp_path, act)


def test_a_connection_is_used_again_and_one_of_http_1_0_is_not(tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        client = await http.connect()
        for _ in range(3):
            reply = await client.ask("GET", "/v1/status")
            assert reply.status == 200 and "connection" not in reply.headers
        assert len(http.door.connections) == 1
        assert statuses(await http.raw(b"GET /v1/status HTTP/1.0\r\n\r\n")) == [200]
        assert statuses(await http.raw(STATUS + b"Connection: close\r\n\r\n")) == [200]

    perform_http(tmp_path, act)


def test_a_request_may_come_byte_by_byte(tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        client = await http.connect()
        for byte in CHECK + b"Content-Length: 2\r\n\r\n{}":
            await client.send(bytes([byte]))
            await asyncio.sleep(0)
        assert (await client.reply()).status == 401

    perform_http(tmp_path, act)


def test_who_sends_slowly_is_told_so_and_hung_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    monkeypatch.setattr(http_connection, "HEAD_SECONDS", 0.05)
    monkeypatch.setattr(http_connection, "STALLED_SECONDS", 0.05)
    monkeypatch.setattr(http_connection, "IDLE_SECONDS", 0.05)

    async def act(http: HttpStage) -> None:
        assert statuses(await http.raw(STATUS)) == [408]
        assert statuses(await http.raw(b"POST /v1/call/Check HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\nhalf")) == [408]
        assert await http.raw(b"") == b""
        idle = await http.connect()
        assert (await idle.ask("GET", "/v1/status")).status == 200
        assert await idle.rest() == b""

    perform_http(tmp_path, act)


def test_who_does_not_read_its_answer_is_hung_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    monkeypatch.setattr(http_connection, "STALLED_SECONDS", 0.1)
    monkeypatch.setattr(http_connection, "MIN_RATE", 1e12)

    async def act(http: HttpStage) -> None:
        client = await http.connect()
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        query = b"GET /v1/speed?nbytes=4194304 HTTP/1.1\r\nHost: here\r\nAuthorization: %s\r\n\r\n" % http.bearer(1).encode()
        for _ in range(4):  # more than the buffers of the system hold
            await client.send(query)
            other = await http.connect()
            other.reader._transport.pause_reading()  # type: ignore[attr-defined]
            await other.send(query)
        await until(lambda: not http.door.connections)

    perform_http(tmp_path, act)


@pytest.mark.parametrize("path", ["/v1/call/Hand", "/v1/call/Enrol", "/v1/enrol", "/v1/check", "/v1/speed", "/v1/profile"])
def test_a_body_that_is_too_large_is_refused_before_it_comes(path: str, tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        head = f"POST {path} HTTP/1.1\r\nHost: here\r\nAuthorization: {http.bearer(1)}\r\nContent-Length: 99999999\r\n\r\n"
        answer = await http.raw(head.encode())
        assert statuses(answer) == [413] and b"is the most here" in answer

    perform_http(tmp_path, act)


def test_bodies_that_are_received_at_once_have_a_limit_in_all(tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        head = b"POST /v1/call/Hand HTTP/1.1\r\nHost: here\r\nContent-Length: 900000\r\n\r\n"
        half = await http.connect()
        await half.send(head + bytes(600_000))
        await until(lambda: http.door.held_bytes == 600_000)
        assert statuses(await http.raw(head + bytes(600_000))) == [429]
        assert http.door.held_bytes == 600_000

    perform_http(tmp_path, act, in_flight_bytes=1_000_000)


def test_no_more_connections_are_held_than_there_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(http: HttpStage) -> None:
        monkeypatch.setattr(http.door, "_most_connections", 2)
        kept = [await http.connect() for _ in range(2)]
        for client in kept:
            assert (await client.ask("GET", "/v1/status")).status == 200
        late = await http.raw(b"")
        assert statuses(late) == [503] and b"as many connections" in late
        assert (await kept[0].ask("GET", "/v1/status")).status == 200

    perform_http(tmp_path, act)


def test_who_expects_a_word_before_its_body_gets_it(tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        client = await http.connect()
        lines = f"Authorization: {http.bearer(1)}\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
        await client.send(CHECK + lines.encode())
        assert await client.reader.readexactly(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(b"{}")
        assert (await client.reply()).status == 200
        stranger = await http.connect()  # its body is not even wanted
        await stranger.send(CHECK + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert (await stranger.reply()).status == 401

    perform_http(tmp_path, act)


def test_who_hangs_up_while_its_call_is_held_is_gone(tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        client, stage = await http.connect(), http.stage
        body = b'{"hold": true}'
        await client.send(CHECK + f"Authorization: {http.bearer(1)}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        await until(lambda: stage.transmitter.state.waiters)
        client.close()
        await until(lambda: [c for m in stage.said for c in m.gone] == [1])

    perform_http(tmp_path, act, hold_seconds=60.0)


def test_a_handler_that_fails_shows_nothing_of_the_inside(tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        async def broken(data: bytes, call: object) -> bytes:
            raise RuntimeError("a secret of the server")

        seen: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: seen.append(context["exception"]))
        http.stage.handlers.methods["Check"] = broken
        client = await http.connect()
        reply = await client.ask("POST", "/v1/call/Check", b"x")
        assert reply.status == 500 and b"secret" not in reply.body and reply.code == "UNKNOWN"
        assert isinstance(seen[0], RuntimeError)
        assert (await client.ask("GET", "/v1/status")).status == 200

    perform_http(tmp_path, act)


def test_the_door_closes_although_connections_are_open(tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        idle, held = await http.connect(), await http.connect()
        assert (await idle.ask("GET", "/v1/status")).status == 200
        caller = encode_message(pb.CheckIn(caller=http.stage.caller(2), hold=True))
        await held.send(b"POST /v1/call/Check HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(caller) + caller)
        await until(lambda: http.stage.transmitter.state.waiters)
        await http.door.close()
        assert await idle.rest() == b"" and await held.rest() == b""

    perform_http(tmp_path, act, hold_seconds=60.0)


# ---- TLS ---------------------------------------------------------------------------------------------------------------


def certificates(folder: Path, **named: Any) -> CertificateFiles:
    return make_certificates(folder, CertificateRequest(**named), datetime.now(UTC))


def test_the_certificates_of_grpc_are_those_of_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    made, other = certificates(tmp_path / "one"), certificates(tmp_path / "two")

    async def act(http: HttpStage) -> None:
        trust = client_context(ClientFiles(made.ca))
        client = await http.connect(trust)
        assert (await client.ask("GET", "/v1/status", Origin="https://here:1")).status == 200
        assert (await client.ask("GET", "/v1/status", Origin="http://here:1")).status == 403
        assert client.writer.get_extra_info("ssl_object").version() == "TLSv1.3"
        for connection in http.door.connections:  # asyncio's own buffer would be 256 KiB for each call that waits
            assert len(connection._transport._ssl_protocol._ssl_buffer) == 1 << 16
        large = await client.ask("GET", "/v1/speed?nbytes=3000000", Authorization=http.bearer(1))
        assert len(large.body) == 3_000_000
        assert (await client.ask("POST", "/v1/enrol", bytes(200_000))).status == 413
        await client.rest()
        assert statuses(await http.raw(STATUS + b"\r\n")) == []  # without TLS
        # Renewed in place, they are taken up; connections that are open go on.
        open_before = await http.connect(trust)
        for old, new in ((made.certificate, other.certificate), (made.key, other.key)):
            old.write_bytes(new.read_bytes())
        await until(lambda: http.door.renewals == 1)
        assert (await open_before.ask("GET", "/v1/status")).status == 200
        with pytest.raises(ssl.SSLError):
            await http.connect(trust)
        assert (await (await http.connect(client_context(ClientFiles(other.ca)))).ask("GET", "/v1/status")).status == 200

    perform_http(tmp_path / "run", act, tls={"certificate": str(made.certificate), "key": str(made.key)})


def test_a_server_that_wants_certificates_of_devices_takes_no_others(tmp_path: Path) -> None:
    made = certificates(tmp_path / "one", clients=["mine"])

    async def act(http: HttpStage) -> None:
        good = await http.connect(client_context(ClientFiles(made.ca, *made.clients["mine"])))
        assert (await good.ask("GET", "/v1/status", Origin="https://evil.example")).status == 403
        stranger = await http.connect(client_context(ClientFiles(made.ca)))
        with suppress(OSError):
            await stranger.send(STATUS + b"\r\n")
            assert await stranger.rest() == b""
        assert len(http.door.connections) == 1

    files = {"certificate": str(made.certificate), "key": str(made.key), "client_ca": str(made.ca)}
    perform_http(tmp_path / "run", act, tls=files)


def test_handshakes_that_never_end_have_a_limit_and_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = certificates(tmp_path / "one")
    monkeypatch.setattr(http_door, "_HANDSHAKE_SECONDS", 2.0)

    async def act(http: HttpStage) -> None:
        monkeypatch.setattr(http.door, "_most_connections", 3)
        silent = [await http.connect() for _ in range(3)]
        await until(lambda: len(http.door._handshakes) == 3)
        for _ in range(2):
            late = await http.connect()
            await late.send(b"hello")
            assert await late.rest() == b""
        for client in silent:  # their time ends
            assert await client.rest() == b""
        good = await http.connect(client_context(ClientFiles(made.ca)))
        assert (await good.ask("GET", "/v1/status")).status == 200

    perform_http(tmp_path / "run", act, tls={"certificate": str(made.certificate), "key": str(made.key)})


# ---- requests that nobody wrote ------------------------------------------------------------------------------------------


def mutated(data: bytes, draw: random.Random) -> bytes:
    """These bytes with a few changes: what a broken client or a stranger sends."""
    changed = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(changed) + 1)
        match draw.randrange(6):
            case 0 if at < len(changed):
                changed[at] ^= 1 << draw.randrange(8)
            case 1:
                changed[at:at] = draw.randbytes(draw.randint(1, 9))
            case 2:
                del changed[at : at + draw.randint(1, 20)]
            case 3:
                changed[at:at] = draw.choice([b"\r\n", b"\n", b"\0", b" ", b":", b"\xff", b"Content-Length: 1\r\n", b"%00", b"{"])
            case 4:
                changed[at:at] = changed[: draw.randint(1, 60)]
            case _:
                changed[at:] = b""
    return bytes(changed)


def fuzz(folder: Path, count: int, seed: int) -> None:
    async def act(http: HttpStage) -> None:
        draw, bearer = random.Random(seed), http.bearer(1).encode()
        check, line = encode_message(pb.CheckIn(caller=http.stage.caller(1))), b"Authorization: " + bearer + b"\r\n"
        report = b'FedFleet-Report: {"nonce": "AAAA", "nbytes": "4", "crc32c": 7, "weight": 1.0}\r\n'
        whole = [
            STATUS + b"\r\n",
            CHECK + line + b'Content-Length: 15\r\n\r\n{"hold": false}',
            b"POST /v1/call/Check HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n" % len(check) + check,
            b"PUT /v1/reports/3 HTTP/1.1\r\nHost: here\r\n" + line + report + b"Content-Length: 4\r\n\r\nabcd",
            b"PUT /v1/reports/3 HTTP/1.1\r\nHost: here\r\n" + line + report
            + b"Content-Range: bytes 2-3/4\r\nContent-Length: 2\r\n\r\ncd",
            b"GET /v1/blobs/0123456789abcdef HTTP/1.1\r\nHost: here\r\n" + line + b"Range: bytes=3-\r\n\r\n",
            b"GET /v1/reports/3?nonce=00ff&nbytes=4&crc32c=7 HTTP/1.1\r\nHost: here\r\n" + line + b"\r\n",
            b"POST /v1/leave HTTP/1.1\r\nHost: here\r\nOrigin: http://here\r\n" + line + b"Content-Length: 0\r\n\r\n",
            b'POST /v1/profile HTTP/1.1\r\nHost: here\r\nContent-Length: 41\r\n\r\n{"model": "a", "seconds_per_batch": 0.25}',
        ]  # fmt: skip
        for _ in range(count):
            client = await http.connect()
            await client.send(mutated(draw.choice(whole), draw))
            if client.writer.can_write_eof():
                client.writer.write_eof()
            answer = await client.rest()
            client.close()
            assert all(200 <= status < 500 for status in statuses(answer)), answer
        http.stage.transmitter.limiter.restore_strikes(2, 10.0, 0.0)
        last = await http.connect()
        assert (await last.ask("POST", "/v1/check", b"{}", Authorization=http.bearer(2))).status == 200

    perform_http(folder, act)


def test_requests_that_nobody_wrote_are_refused(tmp_path: Path) -> None:
    fuzz(tmp_path, 300, seed=1)


@pytest.mark.soak
def test_ten_thousand_requests_that_nobody_wrote_are_refused(tmp_path: Path) -> None:
    fuzz(tmp_path, 10_000, seed=2)
