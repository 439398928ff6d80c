"""The door: who calls must show it, damaged reports cost a strike, broken uploads go on where they broke, and memory is bounded."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest

from fedfleet.core.tensor_format import pack_tree
from fedfleet.network.frontend import service as door
from fedfleet.network.frontend.refusals import NotFound, NotPermitted, RateLimited, TooSlow, Unauthenticated
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.frames import FIRST_EVAL_TASK, encode_frame, encode_message
from fedfleet.network.security.secrets import nonce_of, status_token
from tests.network.stage import KEY, Call, Stage, model, perform, until


def heard(stage: Stage) -> list[tuple[int, float]]:
    return [pair for m in stage.said for pair in zip(m.heard, m.heard_back, strict=True)]


def strikes(stage: Stage) -> int:
    return stage.transmitter.counters["strikes"]


# ---- who calls ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("caller", [pb.Caller(client=99), pb.Caller(client=1), pb.Caller(client=1, secret=b"x" * 32)])
def test_who_does_not_show_its_secret_is_a_stranger(caller: pb.Caller, tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        with pytest.raises(Unauthenticated):
            stage.handlers.authenticate(caller)

    perform(tmp_path, act)


def test_a_secret_holds_for_one_generation(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        assert stage.handlers.authenticate(stage.caller(1)) == 1
        stage.tell(revoked=[1], generations=[2])
        with pytest.raises(Unauthenticated):
            stage.handlers.authenticate(stage.caller(1))
        assert stage.handlers.authenticate(stage.caller(1, 2)) == 1

    perform(tmp_path, act)


def test_who_calls_too_often_is_told_to_be_slow(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        def hammer() -> None:
            for _ in range(200):
                stage.handlers.authenticate(stage.caller(1))

        with pytest.raises(RateLimited, match="try again"):
            hammer()
        assert stage.handlers.authenticate(stage.caller(2)) == 2

    perform(tmp_path, act)


# ---- checking in -------------------------------------------------------------------------------------------------


def test_a_device_on_the_line_gets_its_work_when_there_is_some(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        waiting = asyncio.create_task(stage.check(1, hold=True))
        await until(lambda: stage.transmitter.state.waiters)
        stage.transmitter.on_message(stage.wave(3, 1))
        answer = await waiting
        assert answer.work.task == 3 and answer.work.inline and answer.work.nonce == nonce_of(KEY, 3)
        assert stage.transmitter.state.waiters == {}

    perform(tmp_path, act, hold_seconds=5.0)


def test_a_device_whose_hold_is_over_counts_as_there_until_it_was_told_to_come_back(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        stage.tell(come_back=120.0)
        waiting = asyncio.create_task(stage.check(0, hold=True))
        await until(lambda: stage.transmitter.state.waiters)
        others = [asyncio.create_task(stage.check(client, hold=True)) for client in (1, 2)]
        await asyncio.sleep(0.01)
        assert len(stage.transmitter.state.waiters) == 1  # no room for more on the line
        for one in (waiting, *others):
            answer = await one
            assert answer.WhichOneof("what") == "later"
        await asyncio.sleep(0.02)
        told = dict(heard(stage))
        assert told[1] == told[2] == 120.0

    perform(tmp_path, act, hold=1)


def test_no_more_devices_are_invited_to_the_line_than_fit_there(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        stage.tell(come_back=3.0)
        delays = [(await stage.check(client)).later.seconds for client in range(4)]
        assert delays == [0.0, 0.0, 3.0, 3.0]
        waiting = asyncio.create_task(stage.check(0, hold=True))  # its invitation becomes a place
        await until(lambda: stage.transmitter.state.waiters)
        assert (await stage.check(2)).later.seconds == 3.0
        waiting.cancel()
        await asyncio.wait({waiting})
        assert (await stage.check(2)).later.seconds == 0.0

    perform(tmp_path, act, hold=2, hold_seconds=5.0)


@pytest.mark.parametrize(("hold", "seconds"), [(5, 60.0), (6, 0.0)], ids=["not all fit on the line", "all fit"])
def test_work_that_is_far_is_not_waited_for_on_the_line_unless_all_fit_there(hold: int, seconds: float, tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        stage.tell(come_back=60.0)
        assert (await stage.check(1)).later.seconds == seconds
        stage.tell(come_back=4.0)
        assert (await stage.check(1)).later.seconds == 0.0

    perform(tmp_path, act, hold=hold, hold_seconds=5.0)


def test_a_large_fleet_is_spread_over_as_many_calls_as_the_server_bears(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        stage.tell(come_back=60.0)
        slow = stage.transmitter.return_delay(7)
        stage.tell(come_back=60.0, calls_per_second=2000.0)
        fast = stage.transmitter.return_delay(7)
        assert slow - 60.0 == pytest.approx(2.0 * (fast - 60.0)) and fast > 60.0

    perform(tmp_path, act, hold=1, hold_seconds=5.0, clients=100_000)


def test_who_hangs_up_is_gone_and_leaves_no_place_taken(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        waiting = asyncio.create_task(stage.check(1, hold=True))
        await until(lambda: stage.transmitter.state.waiters)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until(lambda: [c for m in stage.said for c in m.gone] == [1])
        assert stage.transmitter.state.waiters == {}

    perform(tmp_path, act, hold_seconds=5.0)


def test_the_same_device_on_a_second_line_frees_the_first_and_is_not_gone(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        first = asyncio.create_task(stage.check(1, hold=True))
        await until(lambda: stage.transmitter.state.waiters)
        second = asyncio.create_task(stage.check(1, hold=True))
        assert (await first).WhichOneof("what") == "later"
        first.cancel()
        stage.transmitter.on_message(stage.wave(3, 1))
        assert (await second).work.task == 3
        await asyncio.sleep(0.01)
        assert [c for m in stage.said for c in m.gone] == []

    perform(tmp_path, act, hold_seconds=5.0)


def test_who_is_put_out_while_it_waits_is_a_stranger(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        waiting = asyncio.create_task(stage.check(1, hold=True))
        await until(lambda: stage.transmitter.state.waiters)
        stage.tell(revoked=[1], generations=[2])
        with pytest.raises(Unauthenticated):
            await waiting

    perform(tmp_path, act, hold_seconds=5.0)


# ---- reports -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"nonce": b"guessed"}, pb.Receipt.REFUSED),
        ({"crc32c": 1}, pb.Receipt.RETRY),
        ({"nbytes": 3}, pb.Receipt.RETRY),
        ({"kind": pb.EVALUATE}, pb.Receipt.RETRY),
        ({"task": FIRST_EVAL_TASK}, pb.Receipt.RETRY),
    ],
    ids=["nonce", "checksum", "length", "kind", "a task of judging"],
)
def test_a_damaged_or_wrongly_addressed_report_costs_a_strike_and_never_reaches_a_claim(
    changes: dict[str, Any], status: int, tmp_path: Path
) -> None:
    async def act(stage: Stage) -> None:
        task = changes.pop("task", 5)
        receipt = await stage.hand(1, task, **changes)
        assert receipt.status == status and receipt.reason and strikes(stage) == 1
        await asyncio.sleep(0.01)
        assert not any(m.claims for m in stage.said)

    perform(tmp_path, act)


def test_a_faulty_report_is_claimed_with_its_fault_and_a_declined_one_with_its_reason(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        calls = [stage.hand(1, 5, b"no tensors"), stage.hand(2, 6, b"", declined="too \x1b[2J hot", weight=0.0)]
        faulty, declined = await stage.claims(2)
        assert faulty.fault and not faulty.declined
        assert "hot" in declined.declined and "\x1b" not in declined.declined and not declined.fault
        for claim in (faulty, declined):
            stage.tell(grants=[inside.Grant(number=claim.number, status=pb.Receipt.RETRY, reason="again", seconds=0.5)])
        for call in calls:
            receipt = await call
            assert (receipt.status, receipt.reason, receipt.seconds) == (pb.Receipt.RETRY, "again", 0.5)
        assert stage.transmitter.limiter.bytes_in_flight == 0

    perform(tmp_path, act)


def test_a_receipt_brings_the_next_work(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        stage.transmitter.on_message(stage.wave(5, 1))
        call = stage.hand(1, 5)
        (claim,) = await stage.claims()
        stage.transmitter.on_message(stage.wave(9, 1))
        stage.grant(claim)
        receipt = await call
        assert receipt.status == pb.Receipt.SAFE and receipt.next.work.task == 9

    perform(tmp_path, act)


def test_more_bytes_at_once_than_there_is_room_for_are_busy(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        first = stage.hand(1, 5)
        await stage.claims()
        second = await stage.hand(2, 6)
        assert second.status == pb.Receipt.BUSY and second.seconds > 0 and stage.transmitter.counters["busy"] == 1
        first.cancel()
        await asyncio.sleep(0)
        stage.hand(2, 6)
        await stage.claims()

    size = len(pack_tree(model(5)))
    perform(tmp_path, act, in_flight_bytes=size + size // 2)


# ---- streams -----------------------------------------------------------------------------------------------------


def test_a_stream_that_breaks_goes_on_where_it_broke_and_counts_once(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        head, data = stage.report(1, 5)
        half = len(data) // 2
        with pytest.raises(asyncio.CancelledError):
            await stage.stream(head, [data[:half], asyncio.CancelledError()])
        asked = pb.HeldRequest(caller=head.caller, task=5, nonce=head.nonce, nbytes=head.nbytes, crc32c=head.crc32c)
        reply = pb.HeldReply.FromString(await stage.handlers.upload_offset(asked.SerializeToString(), Call()))  # type: ignore[arg-type]
        assert reply.offset == half
        head.offset = half + 1
        wrong = await stage.stream(head, [])
        assert wrong.status == pb.Receipt.BUSY and str(half) in wrong.reason
        head.offset = half
        call = stage.stream(head, [data[half : half + 3], data[half + 3 :]])
        (claim,) = await stage.claims()
        assert claim.fault == "" and claim.nbytes == len(data)
        stage.grant(claim)
        assert (await call).status == pb.Receipt.SAFE
        assert stage.transmitter.limiter.bytes_in_flight == 0
        asked.nonce = b"guessed"
        assert pb.HeldReply.FromString(await stage.handlers.upload_offset(asked.SerializeToString(), Call())).offset == 0  # type: ignore[arg-type]

    perform(tmp_path, act)


@pytest.mark.parametrize("how", ["short", "long", "oversized", "nonce"])
def test_streams_that_are_not_what_they_say(how: str, tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        head, data = stage.report(1, 5)
        chunks = {"short": [data[:-1]], "long": [data, b"x"]}.get(how, [data])
        if how == "oversized":
            head.nbytes = stage.transmitter.config.largest + 1
        if how == "nonce":
            head.nonce = b"guessed"
        receipt = await stage.stream(head, chunks)
        assert receipt.status == (pb.Receipt.RETRY if how in ("short", "long") else pb.Receipt.REFUSED)
        assert strikes(stage) == (0 if how == "short" else 1)
        assert stage.transmitter.limiter.bytes_in_flight == 0

    perform(tmp_path, act)


@pytest.mark.parametrize("silent", ["at once", "in the middle", "dripping"])
def test_a_stream_that_keeps_us_waiting_is_given_up_and_its_memory_given_back(
    silent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "_IDLE_SECONDS", 0.03)
    monkeypatch.setattr(door, "_MIN_UPLOAD_RATE", 1 << 20)

    async def act(stage: Stage) -> None:
        head, data = stage.report(1, 5)

        async def requests() -> Any:
            if silent == "at once":
                await asyncio.sleep(5)
            yield encode_frame(head)
            for byte in data:
                yield bytes([byte])
                await asyncio.sleep(0.005 if silent == "dripping" else 5)

        with pytest.raises(TooSlow, match=r"0.03 s passed without a chunk, .* send it again") as refusal:
            await asyncio.wait_for(stage.handlers.receive_stream(requests(), Call()), 2)  # type: ignore[arg-type]
        assert grpc.StatusCode[refusal.value.code] is grpc.StatusCode.DEADLINE_EXCEEDED
        assert stage.transmitter.counters["calls/HandStream/DEADLINE_EXCEEDED"] == 1
        assert stage.transmitter.limiter.bytes_in_flight == 0
        assert (stage.handlers._partials.stored_bytes(5, head.crc32c, head.nbytes) > 0) is (silent != "at once")

    perform(tmp_path, act)


# ---- the rest ----------------------------------------------------------------------------------------------------


def test_blobs_are_fetched_from_an_offset_on_and_unknown_ones_are_not_there(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        message = stage.wave(0, 1, data=bytes(range(200)))
        stage.transmitter.on_message(message)

        async def fetched(name: str, offset: int, call: Call) -> bytes:
            asked = pb.FetchRequest(caller=stage.caller(1), name=name, offset=offset)
            return b"".join([c async for c in stage.handlers.fetch(asked.SerializeToString(), call)])  # type: ignore[arg-type]

        name = message.blobs[0].name
        assert await fetched(name, 150, Call()) == bytes(range(150, 200))
        assert await fetched(name, 999, Call()) == b""
        with pytest.raises(NotFound):
            await fetched("../../etc", 0, Call())

    perform(tmp_path, act)


def test_leaving_is_being_gone(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        await stage.handlers.leave(pb.LeaveRequest(caller=stage.caller(3)).SerializeToString(), Call())  # type: ignore[arg-type]
        await until(lambda: [c for m in stage.said for c in m.gone] == [3])

    perform(tmp_path, act)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "192.0.2.1:1"])
@pytest.mark.parametrize("shown", ["token", "certificate"])
def test_the_status_is_for_the_operator(address: str, shown: str, tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        token = status_token(KEY) if shown == "token" else ""
        asking = asyncio.create_task(stage.handlers.status(encode_message(pb.StatusRequest(token=token)), Call()))  # type: ignore[arg-type]
        asked = await until(lambda: [a for m in stage.said for a in m.asking])
        stage.tell(told=[inside.Told(number=asked[0].number, json='{"run": "mine"}')])
        assert pb.StatusReply.FromString(await asking).json == '{"run": "mine"}'

    perform(tmp_path, act, address=address, tls={"client_ca": "ca.pem"} if shown == "certificate" else {})


@pytest.mark.parametrize("address", ["127.0.0.1:1", "192.0.2.1:1"])
def test_others_hear_whether_the_server_takes_devices_and_no_more(address: str, tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        async def status(token: str = "") -> str:
            data = encode_message(pb.StatusRequest(token=token))
            return pb.StatusReply.FromString(await stage.handlers.status(data, Call())).json  # type: ignore[arg-type]

        assert await status() == '{"serving": true}'
        with pytest.raises(NotPermitted, match="not the token"):
            await status("wrong")
        stage.tell(drain=True)
        assert await status() == '{"serving": false}'
        assert not [a for m in stage.said for a in m.asking], "the server loop is not asked"

        async def ask_often() -> None:
            for _ in range(5000):
                await status()

        with pytest.raises(RateLimited):
            await ask_often()

    perform(tmp_path, act, address=address)


def test_a_stranger_does_not_learn_how_large_the_fleet_is(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        said = set()
        for client in (0, 3, 10**6):
            with pytest.raises(Unauthenticated) as refusal:
                stage.handlers.authenticate(pb.Caller(client=client, secret=b"x" * 32))
            said.add(str(refusal.value).replace(str(client), "N"))
        assert len(said) == 1

    perform(tmp_path, act)
