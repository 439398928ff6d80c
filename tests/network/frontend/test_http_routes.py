"""The paths of the HTTP door: each call as binary and as JSON, uploads that go on where they broke, origins, the page."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from fedfleet.core.tensor_format import pack_tree
from fedfleet.network.frontend import page_files
from fedfleet.network.frontend.http_answers import _STATUSES
from fedfleet.network.frontend.refusals import CallRefused
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import crc32c, decode_frame, encode_frame, encode_message, parse_message
from fedfleet.network.security.secrets import nonce_of, status_token
from tests.network.frontend.http_stage import HttpStage, perform_http
from tests.network.stage import KEY, Stage, model, until


def head_of(payload: bytes, **changes: Any) -> str:
    """The head of a report of task 3, as JSON."""
    nonce = base64.b64encode(nonce_of(KEY, 3)).decode()
    return json.dumps({"nonce": nonce, "nbytes": str(len(payload)), "crc32c": crc32c(payload), "weight": 1.0, **changes})


async def granted(stage: Stage) -> None:
    """The server grants the next claim."""
    (claim,) = await stage.claims()
    stage.grant(claim)


async def answer_question(stage: Stage, **fields: Any) -> Any:
    """The server answers the next question of the frontend."""
    (question,) = await until(lambda: [q for m in stage.said for q in (*m.asking, *m.enrolling)])
    stage.tell(**{name: [{"number": question.number, **value}] for name, value in fields.items()})
    return question


# ---- binary form -------------------------------------------------------------------------------------------------


def test_the_calls_of_grpc_are_the_same_bytes_here(tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        stage, client = http.stage, await http.connect()
        stage.transmitter.on_message(stage.wave(3, 1, data=b"a model"))
        reply = await client.ask("POST", "/v1/call/Check", encode_message(pb.CheckIn(caller=stage.caller(1), hold=True)))
        answer, payload = decode_frame(reply.body, pb.Answer)
        assert (
            answer.work.task == 3 and bytes(payload) == b"a model" and reply.headers["content-type"] == "application/octet-stream"
        )
        request = encode_message(pb.FetchRequest(caller=stage.caller(1), name=answer.work.model.name, offset=2))
        assert (await client.ask("POST", "/v1/call/Fetch", request)).body == b"model"
        head, data = stage.report(1, 3)
        granting = asyncio.create_task(granted(stage))
        reply = await client.ask("POST", "/v1/call/Hand", encode_frame(head, data))
        await granting
        assert decode_frame(reply.body, pb.Receipt)[0].status == pb.Receipt.SAFE

    perform_http(tmp_path, act)


def test_a_report_in_chunks_is_its_frame_and_then_its_bytes(tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        stage, client = http.stage, await http.connect()
        stage.transmitter.on_message(stage.wave(3, 1))
        head, data = stage.report(1, 3)
        body = encode_frame(head) + data
        granting = asyncio.create_task(granted(stage))
        await client.send(b"POST /v1/call/HandStream HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body))
        for byte in range(len(body)):
            await client.send(body[byte : byte + 1])
            if byte % 16 == 0:
                await asyncio.sleep(0)
        receipt = decode_frame((await client.reply()).body, pb.Receipt)[0]
        await granting
        assert receipt.status == pb.Receipt.SAFE

    perform_http(tmp_path, act)


@pytest.mark.parametrize("start", [b"", b"\1", b"\xff\xff\xff\xff", b"\5\0\0\0ab", b"\2\0\0\0\xff\xff"])
def test_a_stream_without_a_frame_is_refused(start: bytes, tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        client = await http.connect()
        reply = await client.ask("POST", "/v1/call/HandStream", start)
        assert (reply.status, reply.code) == (400, "INVALID_ARGUMENT")

    perform_http(tmp_path, act)


# ---- heads as JSON -----------------------------------------------------------------------------------------------


def test_a_device_without_protobuf_goes_through_a_task(tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        stage, client = http.stage, await http.connect()
        me = {"Authorization": http.bearer(1)}
        stage.transmitter.on_message(stage.wave(3, 1, data=b"a model"))
        work = (await client.ask("POST", "/v1/check", b'{"hold": true}', **me)).json()["work"]
        assert work["task"] == "3" and work["kind"] == "TRAIN" and work["inline"] is False
        blob = f"/v1/blobs/{work['model']['name']}"
        whole = await client.ask("GET", blob, **me)
        assert (whole.status, whole.body, whole.headers["etag"]) == (200, b"a model", f'"{work["model"]["name"]}"')
        rest = await client.ask("GET", blob, Range="bytes=2-", **me)
        assert (rest.status, rest.body, rest.headers["content-range"]) == (206, b"model", "bytes 2-6/7")
        assert (await client.ask("GET", blob, Range="bytes=7-", **me)).status == 416
        assert (await client.ask("GET", blob, Range="bytes=-2", **me)).status == 200
        payload = pack_tree(model(3))
        granting = asyncio.create_task(granted(stage))
        reply = await client.ask("PUT", "/v1/reports/3", payload, FedFleet_Report=head_of(payload), **me)
        await granting
        assert reply.json()["status"] == "SAFE" and "later" in reply.json()["next"]
        assert (await client.ask("POST", "/v1/leave", **me)).json() == {}
        await until(lambda: [c for m in stage.said for c in m.gone] == [1])

    perform_http(tmp_path, act)


def test_a_model_does_not_count_as_sent_where_none_goes_along(tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        stage, client = http.stage, await http.connect()
        stage.transmitter.on_message(stage.wave(3, 1, data=b"a model"))
        await client.ask("POST", "/v1/check", b"{}", Authorization=http.bearer(1))
        assert stage.transmitter.counters["bytes_down"] == 0

    perform_http(tmp_path, act)


def test_an_upload_that_broke_goes_on_where_it_was(tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        stage, me = http.stage, {"Authorization": http.bearer(1)}
        stage.transmitter.on_message(stage.wave(3, 1))
        payload = pack_tree(model(3))
        half, head = len(payload) // 2, head_of(payload)
        broken = await http.connect()
        lines = (
            f"Host: h\r\nAuthorization: {me['Authorization']}\r\nFedFleet-Report: {head}\r\nContent-Length: {len(payload)}\r\n\r\n"
        )
        await broken.send(b"PUT /v1/reports/3 HTTP/1.1\r\n" + lines.encode() + payload[:half])
        await until(lambda: stage.transmitter.limiter.bytes_in_flight)
        broken.close()
        await until(lambda: not stage.transmitter.limiter.bytes_in_flight)
        client = await http.connect()
        query = f"/v1/reports/3?nonce={nonce_of(KEY, 3).hex()}&nbytes={len(payload)}&crc32c={crc32c(payload)}"
        offset = int((await client.ask("GET", query, **me)).json()["offset"])
        assert 0 < offset <= half
        wrong = await client.ask("PUT", "/v1/reports/3", payload[1:], FedFleet_Report=head,
                                 Content_Range=f"bytes 1-{len(payload) - 1}/{len(payload)}", **me)  # fmt: skip
        assert wrong.json()["status"] == "BUSY" and f"{offset} bytes" in wrong.json()["reason"]
        granting = asyncio.create_task(granted(stage))
        reply = await client.ask("PUT", "/v1/reports/3", payload[offset:], FedFleet_Report=head,
                                 Content_Range=f"bytes {offset}-{len(payload) - 1}/{len(payload)}", **me)  # fmt: skip
        await granting
        assert reply.json()["status"] == "SAFE"

    perform_http(tmp_path, act)


@pytest.mark.parametrize(
    ("changes", "more", "status", "says"),
    [
        ({"nbytes": "5"}, {}, 400, "names 5 bytes"),
        ({"task": "3"}, {}, 400, "'task' is not part"),
        ({"caller": {}}, {}, 400, "'caller' is not part"),
        ({"odd": 1}, {}, 400, "FedFleet-Report cannot be used"),
        ({}, {"Content_Range": "bytes 0-1/2"}, 400, "Content-Range is not"),
        ({}, {"Content_Range": "bytes 0-3/9"}, 400, "Content-Range is not"),
        ({}, {"Content_Range": "bytes 9-3/4"}, 400, "Content-Range is not"),
        ({}, {"Content_Range": "bytes */4"}, 400, "Content-Range is not"),
    ],
)
def test_a_head_that_does_not_fit_its_body_is_refused(
    changes: dict[str, Any], more: dict[str, str], status: int, says: str, tmp_path: Path
) -> None:
    async def act(http: HttpStage) -> None:
        client = await http.connect()
        headers = {"Authorization": http.bearer(1), "FedFleet_Report": head_of(b"abcd", **changes), **more}
        reply = await client.ask("PUT", "/v1/reports/3", b"abcd", **headers)
        assert reply.status == status and says in reply.json()["error"]["message"]

    perform_http(tmp_path, act)


def test_a_report_larger_than_any_is_refused_and_strikes(tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        client, largest = await http.connect(), http.stage.transmitter.config.largest
        headers = f"Host: h\r\nAuthorization: {http.bearer(1)}\r\nContent-Length: {largest + 1}\r\n"
        await client.send(f"PUT /v1/reports/3 HTTP/1.1\r\n{headers}FedFleet-Report: {head_of(b'', nbytes=0)}\r\n\r\n".encode())
        reply = await client.reply()
        assert reply.json()["status"] == "REFUSED" and reply.headers["connection"] == "close"
        assert http.stage.transmitter.counters["strikes"] == 1

    perform_http(tmp_path, act)


def test_a_device_enrols_in_json(tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        stage, client = http.stage, await http.connect()
        reply = pb.EnrolReply(client=4, secret=b"s" * 32, sheet=b"{}", run="a run")
        answering = asyncio.create_task(answer_question(stage, enrolled={"reply": reply.SerializeToString()}))
        result = (await client.ask("POST", "/v1/enrol", b'{"protocol": 4, "testSamples": "7"}')).json()
        asked = parse_message((await answering).request, pb.EnrolRequest)
        assert asked.protocol == 4 and asked.test_samples == 7
        assert result["client"] == 4 and base64.b64decode(result["secret"]) == b"s" * 32 and result["run"] == "a run"

    perform_http(tmp_path, act)


def test_an_enrolment_that_the_server_refuses(tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        client = await http.connect()
        answering = asyncio.create_task(answer_question(http.stage, enrolled={"refused": "the token was used up"}))
        reply = await client.ask("POST", "/v1/enrol", b'{"protocol": 4, "token": "x"}')
        await answering
        assert reply.status == 409 and reply.json() == {
            "error": {"code": "FAILED_PRECONDITION", "message": "the token was used up"}
        }

    perform_http(tmp_path, act)


def test_status_is_for_its_operator(tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        client = await http.connect()
        assert (await client.ask("GET", "/v1/status")).json() == {"serving": True}
        assert (await client.ask("GET", "/v1/status", Authorization="Bearer wrong")).status == 403
        answering = asyncio.create_task(answer_question(http.stage, told={"json": '{"round": 3}'}))
        assert (await client.ask("GET", "/v1/status", Authorization=f"Bearer {status_token(KEY)}")).json() == {"round": 3}
        await answering

    perform_http(tmp_path, act)


def test_a_rehearsal_gets_its_samples(tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        client = await http.connect()
        answering = asyncio.create_task(answer_question(http.stage, told={"shard": b"samples"}))
        assert (await client.ask("GET", "/v1/shard", Authorization=http.bearer(1))).body == b"samples"
        assert (await answering).shard_of == 1
        http.stage.said.clear()
        answering = asyncio.create_task(answer_question(http.stage, told={}))
        none = await client.ask("GET", "/v1/shard", Authorization=http.bearer(2))
        assert (none.status, none.code) == (404, "NOT_FOUND")

    perform_http(tmp_path, act)


def test_profiles_are_written_down_with_their_client(tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        client, me = await http.connect(), {"Authorization": http.bearer(1)}
        assert (await client.ask("POST", "/v1/profile", b'{"model": "Pixel 6", "seconds_per_batch": 0.2}', **me)).json() == {}
        for data in (b'{"model": "x"}', b'{"model": "x", "seconds_per_batch": 1, "odd": 1}', b"[]", b"\xff",
                     b'{"model": "x", "seconds_per_batch": NaN}', b'{"model": "x", "seconds_per_batch": -1}',
                     b'{"model": 7, "seconds_per_batch": 1}', b'{"model": "x", "seconds_per_batch": true}'):  # fmt: skip
            assert (await client.ask("POST", "/v1/profile", data, **me)).status == 400, data
        lines = (Path(http.stage.transmitter.config.folder).parents[1] / "profiles.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in lines] == [{"client": 1, "model": "Pixel 6", "seconds_per_batch": 0.2}]

    perform_http(tmp_path / "run", act)


def test_a_link_is_measured_both_ways_a_few_times(tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        client, me = await http.connect(), {"Authorization": http.bearer(1)}
        assert len((await client.ask("GET", "/v1/speed?nbytes=200000", **me)).body) == 200_000
        assert (await client.ask("POST", "/v1/speed", bytes(300_000), **me)).json() == {"nbytes": "300000"}
        for query in ("", "?nbytes=-1", "?nbytes=9999999", "?nbytes=x"):
            assert (await client.ask("GET", f"/v1/speed{query}", **me)).status == 400
        replies = [await client.ask("GET", "/v1/speed?nbytes=1", **me) for _ in range(12)]
        slowed = [r for r in replies if r.status == 429]
        assert slowed and int(slowed[0].headers["retry-after"]) >= 1 and slowed[0].code == "RESOURCE_EXHAUSTED"

    perform_http(tmp_path, act)


# ---- who may call ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shown",
    ["", "Basic 1:00", "Bearer", "Bearer 1", "Bearer 1:zz", "Bearer -1:00", "Bearer 1:00", "Bearer 99999999999:00", "Bearer x:00"],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/check"), ("GET", "/v1/blobs/0123456789abcdef"), ("PUT", "/v1/reports/3"), ("POST", "/v1/leave"),
     ("GET", "/v1/reports/3?nonce=00&nbytes=1&crc32c=1"), ("GET", "/v1/shard"), ("POST", "/v1/profile"),
     ("GET", "/v1/speed?nbytes=9")],
)  # fmt: skip
def test_who_does_not_show_its_secret_is_a_stranger(shown: str, method: str, path: str, tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        client = await http.connect()
        headers = {"Authorization": shown} if shown else {}
        reply = await client.ask(method, path, b"", **headers)
        assert (reply.status, reply.code) == (401, "UNAUTHENTICATED")
        assert reply.headers["www-authenticate"] == "bearer"
        assert http.stage.transmitter.counters["strangers"] == 1

    perform_http(tmp_path, act)


def test_the_secret_of_another_client_or_generation_is_worth_nothing(tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        client = await http.connect()
        stolen = http.bearer(2).replace("2:", "1:")
        assert (await client.ask("POST", "/v1/check", b"{}", Authorization=stolen)).status == 401
        http.stage.tell(revoked=[1], generations=[2])
        assert (await client.ask("POST", "/v1/check", b"{}", Authorization=http.bearer(1))).status == 401
        assert (await client.ask("POST", "/v1/check", b"{}", Authorization=http.bearer(1, 2))).status == 200

    perform_http(tmp_path, act)


def test_pages_of_others_may_not_call_unless_they_are_allowed(tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        client = await http.connect()
        for origin in (
            "https://evil.example",
            "null",
            "http://here",
            "http://here:2",
            "ftp://here:1",
            "http://here:1.evil.example",
        ):
            reply = await client.ask("GET", "/v1/status", Origin=origin)
            assert (reply.status, reply.code) == (403, "PERMISSION_DENIED"), origin
            assert not [name for name in reply.headers if name.startswith("access-control")]
            assert (await client.ask("OPTIONS", "/v1/check", Origin=origin)).status == 403
        own = await client.ask("GET", "/v1/status", Origin="http://here:1")
        assert own.status == 200 and "access-control-allow-origin" not in own.headers
        friend = await client.ask("GET", "/v1/status", Origin="https://friend.example")
        assert friend.headers["access-control-allow-origin"] == "https://friend.example" and friend.headers["vary"] == "origin"
        asked = await client.ask("OPTIONS", "/v1/reports/3", Origin="https://friend.example", Access_Control_Request_Method="PUT")
        assert asked.status == 200 and "fedfleet-report" in asked.headers["access-control-allow-headers"]
        assert (await client.ask("OPTIONS", "/v1/check")).status == 405
        refused = await client.ask("POST", "/v1/check", b"{}", Origin="https://friend.example")
        assert refused.status == 401 and refused.headers["access-control-allow-origin"] == "https://friend.example"

    perform_http(tmp_path, act, origins=["https://friend.example"])


# ---- what is not there -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404), ("GET", "/v1", 404), ("GET", "/v1/", 404), ("POST", "/v1/call/", 404), ("POST", "/v1/call/Odd", 404),
        ("POST", "/v1/call/../enrol", 404), ("GET", "/v1/enrol", 405), ("DELETE", "/v1/reports/3", 405), ("GET", "/join", 404),
        ("GET", "/v1/blobs/../../etc/passwd", 404), ("GET", "/metrics", 404), ("BREW", "/v1/check", 400),
    ],
)  # fmt: skip
def test_there_is_nothing_else(method: str, path: str, status: int, tmp_path: Path) -> None:
    async def act(http: HttpStage) -> None:
        client = await http.connect()
        reply = await client.ask(method, path, b"")
        assert reply.status == status and reply.json()["error"]["message"]

    perform_http(tmp_path, act)


def test_every_refusal_of_the_service_has_a_status() -> None:
    kinds = [CallRefused, *CallRefused.__subclasses__()]
    assert {kind.code for kind in kinds} <= set(_STATUSES)


def test_the_page_is_for_everybody_and_runs_only_what_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "page"
    folder.mkdir()
    (folder / "index.html").write_text("<script src=/join/a.js></script>")
    (folder / "a.js").write_text("1")
    (folder / "secret.txt").write_text("not a part of it")
    monkeypatch.setattr(page_files.page_files, "__defaults__", (folder,))

    async def act(http: HttpStage) -> None:
        client = await http.connect()
        for path in ("/join", "/join/", "/join/index.html"):
            reply = await client.ask("GET", path)
            assert (
                reply.status == 200 and reply.body.startswith(b"<script") and reply.headers["content-type"].startswith("text/html")
            )
            policy = reply.headers["content-security-policy"]
            assert policy.startswith("default-src 'self'; worker-src 'self'") and "unsafe-inline" not in policy
            assert "script-src 'self' 'wasm-unsafe-eval'" in policy and "'unsafe-eval'" not in policy
        assert (await client.ask("GET", "/join/a.js")).headers["content-type"].startswith("text/javascript")
        for path in ("/join/secret.txt", "/join/../a.js", "/join/b.js"):
            assert (await client.ask("GET", path)).status == 404

    perform_http(tmp_path / "run", act, page=True)
