"""HTTP/2: the same paths on streams of one connection, and what a stranger may leave unread, unsent or taken back."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("h2")

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, ResponseReceived, StreamEnded, StreamReset
from h2.exceptions import ProtocolError

from fedfleet.core.tensor_format import pack_tree
from fedfleet.network.frontend import http2_connection
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import decode_frame, encode_message
from fedfleet.network.security.certificates import CertificateRequest, make_certificates
from fedfleet.network.security.tls import ClientFiles, client_context
from tests.network.frontend.http_stage import SECONDS, Client, HttpStage, Reply, hurry, perform_http
from tests.network.frontend.test_http_connection import mutated
from tests.network.frontend.test_http_routes import granted, head_of
from tests.network.stage import model, until


class Http2Client:
    """One connection; a test may say whatever it likes through `h2`."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8", validate_outbound_headers=False))
        self.heads: dict[int, dict[str, str]] = {}
        self.bodies: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.resets: set[int] = set()
        self.terminated: Any = None
        self.h2.initiate_connection()

    async def start(self, method: str, path: str, body: bytes | None = None, *, end: bool = True, **headers: str) -> int:
        """Send a request; the number of its stream."""
        stream = self.h2.get_next_available_stream_id()
        lines = [(":method", method), (":path", path), (":scheme", "https"), (":authority", "here:1")]
        if body is not None and "content_length" not in headers:
            lines.append(("content-length", str(len(body))))
        lines += [(name.lower().replace("_", "-"), value) for name, value in headers.items()]
        self.h2.send_headers(stream, lines, end_stream=end and not body)
        self.bodies[stream] = b""
        while body:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size, len(body))
            if not room:
                await self.listen()
                continue
            piece, body = body[:room], body[room:]
            self.h2.send_data(stream, piece, end_stream=end and not body)
        await self.flush()
        return stream

    async def flush(self) -> None:
        await self.client.send(self.h2.data_to_send())

    async def listen(self, *, take: bool = True) -> None:
        """Take in what comes next."""
        await self.flush()
        async with asyncio.timeout(SECONDS):
            data = await self.client.reader.read(1 << 16)
        if not data:
            raise EOFError
        for event in self.h2.receive_data(data):
            match event:
                case ResponseReceived():
                    self.heads[event.stream_id or 0] = dict(event.headers)  # type: ignore[arg-type]
                case DataReceived():
                    self.bodies[event.stream_id] += event.data
                    if take:
                        self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                case StreamEnded():
                    self.ended.add(event.stream_id)
                case StreamReset():
                    self.resets.add(event.stream_id)
                case ConnectionTerminated():
                    self.terminated = event.error_code
        await self.flush()

    async def reply(self, stream: int) -> Reply:
        """The whole answer on this stream."""
        while stream not in self.ended:
            await self.listen()
        headers = dict(self.heads[stream])
        return Reply(int(headers.pop(":status")), headers, self.bodies[stream])

    async def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
        """A request and its answer."""
        return await self.reply(await self.start(method, path, body, **headers))


def perform_http2(tmp_path: Path, act: Callable[[HttpStage, Callable[[], Any]], Coroutine[Any, Any, None]], **changes: Any) -> None:
    """Let an act happen at a door with TLS; the second argument makes a connection of HTTP/2."""
    made = make_certificates(tmp_path / "tls", CertificateRequest(), datetime.now(UTC))
    trust = client_context(ClientFiles(made.ca))
    trust.set_alpn_protocols(["h2"])

    async def acted(http: HttpStage) -> None:
        async def connect() -> Http2Client:
            client = await http.connect(trust)
            assert client.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
            return Http2Client(client)

        await act(http, connect)

    perform_http(tmp_path / "run", acted, tls={"certificate": str(made.certificate), "key": str(made.key)}, **changes)


def test_a_device_goes_through_a_task_on_one_connection(tmp_path: Path) -> None:
    async def act(http: HttpStage, connect: Callable[[], Any]) -> None:
        stage, client, me = http.stage, await connect(), {"authorization": http.bearer(1)}
        held = await client.start("POST", "/v1/check", b'{"hold": true}', **me)
        assert (await client.ask("GET", "/v1/status")).json() == {"serving": True}  # while the other is held
        stage.transmitter.on_message(stage.wave(3, 1, data=b"a model"))
        work = (await client.reply(held)).json()["work"]
        blob = await client.ask("GET", f"/v1/blobs/{work['model']['name']}", range="bytes=2-", **me)
        assert (blob.status, blob.body, blob.headers["content-range"]) == (206, b"model", "bytes 2-6/7")
        payload = pack_tree(model(3))
        granting = asyncio.create_task(granted(stage))
        reply = await client.ask("PUT", "/v1/reports/3", payload, fedfleet_report=head_of(payload), **me)
        await granting
        assert reply.json()["status"] == "SAFE"
        binary = await client.ask("POST", "/v1/call/Check", encode_message(pb.CheckIn(caller=stage.caller(1))))
        assert decode_frame(binary.body, pb.Answer)[0].HasField("later")
        assert len(http.door.connections) == 1

    perform_http2(tmp_path, act, hold_seconds=60.0)


def test_large_bodies_and_answers_go_through_windows(tmp_path: Path) -> None:
    async def act(http: HttpStage, connect: Callable[[], Any]) -> None:
        client, me = await connect(), {"authorization": http.bearer(1)}
        down = await client.start("GET", "/v1/speed?nbytes=3000000", **me)
        up = await client.ask("POST", "/v1/speed", bytes(2_000_000), **me)
        assert up.json() == {"nbytes": "2000000"}
        assert len((await client.reply(down)).body) == 3_000_000

    perform_http2(tmp_path, act)


BAD = {
    "two callers": (400, {"authorization": "Bearer 1:00", "Authorization": "Bearer 2:00"}),
    "a path that is none": (400, {}),
    "no length": (411, {}),
    "no secret": (401, {}),
}


def test_what_can_be_read_in_two_ways_is_refused_and_the_connection_goes_on(tmp_path: Path) -> None:
    async def act(http: HttpStage, connect: Callable[[], Any]) -> None:
        client = await connect()
        for name, (status, headers) in BAD.items():
            path = "v1/check" if name == "a path that is none" else "/v1/check"
            length = {} if name == "no length" else {"content_length": "0"}
            stream = await client.start("POST", path, end=name != "no length", **length, **headers)
            reply = await client.reply(stream)
            assert reply.status == status and reply.json()["error"]["message"], name
        too_large = await client.start("POST", "/v1/check", end=False, content_length="999999", authorization=http.bearer(1))
        assert (await client.reply(too_large)).status == 413
        await until_async(client, lambda: too_large in client.resets)  # nothing of it is wanted
        assert (await client.ask("GET", "/v1/status")).status == 200
        other = await client.ask("GET", "/v1/status", origin="https://evil.example")
        assert other.status == 403

    perform_http2(tmp_path, act)


async def hung_up(client: Http2Client, *, take: bool = True) -> None:
    """Until the server has ended the connection."""
    with suppress(EOFError, ConnectionError):
        while True:
            await client.listen(take=take)


async def until_async(client: Http2Client, look: Callable[[], bool]) -> None:
    while not look():
        await client.listen()


def test_who_takes_requests_back_all_the_time_is_hung_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2_connection, "_MAX_RESETS", 10)

    async def act(http: HttpStage, connect: Callable[[], Any]) -> None:
        client = await connect()
        with suppress(EOFError, ProtocolError):
            for _ in range(12):
                stream = await client.start("POST", "/v1/check", b'{"hold": true}', authorization=http.bearer(1))
                client.h2.reset_stream(stream)
                await client.flush()
            while True:
                await client.listen()
        assert client.terminated == 11  # "enhance your calm"

    perform_http2(tmp_path, act, hold_seconds=60.0)


def test_who_hangs_up_or_takes_back_a_call_that_is_held_is_gone(tmp_path: Path) -> None:
    async def act(http: HttpStage, connect: Callable[[], Any]) -> None:
        client, stage = await connect(), http.stage
        held = [await client.start("POST", "/v1/check", b'{"hold": true}', authorization=http.bearer(n)) for n in (1, 2)]
        await until(lambda: len(stage.transmitter.state.waiters) == 2)
        client.h2.reset_stream(held[0])
        await client.flush()
        await until(lambda: [c for m in stage.said for c in m.gone] == [1])
        client.client.close()
        await until(lambda: sorted(c for m in stage.said for c in m.gone) == [1, 2])

    perform_http2(tmp_path, act, hold_seconds=60.0)


def test_more_streams_than_are_allowed_or_frames_that_are_none_end_the_connection(tmp_path: Path) -> None:
    async def act(http: HttpStage, connect: Callable[[], Any]) -> None:
        for garbage in (b"\xff" * 64, b"\0\0\0\0\0\0\0\0\1", b"\0\0\4\10\0\0\0\0\0" + bytes(4)):
            client = await connect()
            await client.listen()
            await client.client.send(garbage)
            await hung_up(client)
        for headers in ({"content_length": "+2"}, {"host": "there"}):
            odd = await connect()
            await odd.start("POST", "/v1/check", **headers)
            await hung_up(odd)
            assert odd.terminated == 1  # a break of the protocol
        crowd = await connect()
        await crowd.listen()
        crowd.h2.remote_settings.max_concurrent_streams = 10_000
        crowd.h2.remote_settings.acknowledge()
        with suppress(EOFError, ConnectionError):
            for _ in range(http2_connection.MAX_STREAMS + 2):
                await crowd.start("POST", "/v1/check", b'{"hold": true}', authorization=http.bearer(1))
            while True:
                await crowd.listen()
        assert crowd.terminated is not None

    perform_http2(tmp_path, act, hold_seconds=60.0)


def test_who_is_slow_or_reads_nothing_is_hung_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    for name in ("HEAD_SECONDS", "IDLE_SECONDS", "STALLED_SECONDS"):
        monkeypatch.setattr(http2_connection, name, 0.3)
    monkeypatch.setattr(http2_connection, "MIN_RATE", 1e12)

    async def act(http: HttpStage, connect: Callable[[], Any]) -> None:
        silent, slow, deaf = await connect(), await connect(), await connect()
        stream = await slow.start("POST", "/v1/check", end=False, content_length="9", authorization=http.bearer(1))
        assert (await slow.reply(stream)).status == 408
        await deaf.start("GET", "/v1/speed?nbytes=3000000", authorization=http.bearer(2))
        await hung_up(deaf, take=False)
        await hung_up(silent)
        await until(lambda: not http.door.connections)

    perform_http2(tmp_path, act)


def test_an_answer_that_fails_on_the_way_is_reset(tmp_path: Path) -> None:
    async def act(http: HttpStage, connect: Callable[[], Any]) -> None:
        async def broken(exchange: Any) -> None:
            exchange.send_head(200, 9, b"text/plain")
            raise RuntimeError("a secret of the server")

        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        http.door.handle = broken
        client = await connect()
        stream = await client.start("GET", "/v1/status")
        await until_async(client, lambda: stream in client.resets)

    perform_http2(tmp_path, act)


def test_the_door_closes_although_streams_are_open(tmp_path: Path) -> None:
    async def act(http: HttpStage, connect: Callable[[], Any]) -> None:
        client = await connect()
        await client.start("POST", "/v1/check", json.dumps({"hold": True}).encode(), authorization=http.bearer(1))
        await until(lambda: http.stage.transmitter.state.waiters)
        await http.door.close()
        await hung_up(client)

    perform_http2(tmp_path, act, hold_seconds=60.0)


def test_no_more_is_kept_of_a_frame_or_a_head_than_it_may_have(tmp_path: Path) -> None:
    """Without its end, a head would be kept until it has one: as large as a stranger likes."""

    async def act(http: HttpStage, connect: Callable[[], Any]) -> None:
        begun = b"\0\x40\0\1\0\0\0\0\1" + bytes(1 << 14)  # HEADERS without END_HEADERS
        more = b"\0\x40\0\x09\0\0\0\0\1" + bytes(1 << 14)
        for data in (b"\0\x40\1\0\0\0\0\0\1", begun + more + more, b"\xff" * 9):
            client = await connect()
            await client.listen()
            for at in range(0, len(data), 1000):
                await client.client.send(data[at : at + 1000])
            await hung_up(client)
            assert client.terminated in (1, 6), data[:9]

    perform_http2(tmp_path, act)


def session(bearer: str) -> bytes:
    """What an honest client sends that makes three requests without hearing anything."""
    h2 = H2Connection(H2Configuration(client_side=True))
    h2.initiate_connection()
    common = [(":scheme", "https"), (":authority", "here:1"), ("authorization", bearer)]
    h2.send_headers(1, [(":method", "GET"), (":path", "/v1/status"), *common], end_stream=True)
    h2.send_headers(3, [(":method", "POST"), (":path", "/v1/check"), *common, ("content-length", "2")])
    h2.send_data(3, b"{}", end_stream=True)
    h2.ping(b"12345678")
    h2.send_headers(5, [(":method", "PUT"), (":path", "/v1/reports/3"), *common, ("content-length", "9")])
    h2.send_data(5, b"12345")
    h2.reset_stream(5)
    return h2.data_to_send()


def fuzz(tmp_path: Path, count: int, seed: int) -> None:
    async def act(http: HttpStage, connect: Callable[[], Any]) -> None:
        draw, whole, failures = random.Random(seed), session(http.bearer(1)), list[Any]()
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))
        for _ in range(count):
            client = (await connect()).client
            data = mutated(whole[24:], draw)
            await client.send(whole[:24] + data)
            for _ in range(draw.randrange(4)):
                await asyncio.sleep(0)
            client.close()
        await until(lambda: not http.door.connections)
        assert failures == []
        assert (await (await connect()).ask("POST", "/v1/check", b"{}", authorization=http.bearer(2))).status == 200

    perform_http2(tmp_path, act)


def test_frames_that_nobody_wrote_end_their_connection(tmp_path: Path) -> None:
    fuzz(tmp_path, 100, seed=3)


@pytest.mark.soak
def test_five_thousand_sessions_that_nobody_wrote_end_their_connection(tmp_path: Path) -> None:
    fuzz(tmp_path, 5000, seed=4)
