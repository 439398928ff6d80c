"""Listening: what is foreign or strange becomes a status, and every call is counted by how it ended."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import grpc
import pytest

from fedfleet.core.errors import Refused
from fedfleet.network.frontend.grpc_door import method_handlers
from fedfleet.network.frontend.refusals import RateLimited, Unauthenticated
from fedfleet.network.protocol import fleet_pb2 as pb
from tests.network.bench import UNTIL_STOPPED, bench
from tests.network.harness import wait_for
from tests.network.puppet import Puppet
from tests.network.stage import Call, Stage, perform
from tests.network.toys import Toy


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (Unauthenticated("who?"), grpc.StatusCode.UNAUTHENTICATED),
        (RateLimited("slow"), grpc.StatusCode.RESOURCE_EXHAUSTED),
        (Refused("odd"), grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
def test_what_is_foreign_or_strange_becomes_a_status_and_is_counted(
    raised: Exception, code: grpc.StatusCode, tmp_path: Path
) -> None:
    async def act(stage: Stage) -> None:
        async def leave(data: bytes, context: Any) -> bytes:
            raise raised

        stage.handlers.methods["Leave"] = leave
        method, call = method_handlers(stage.handlers)["Leave"], Call()
        with pytest.raises(grpc.aio.AbortError):
            await method.unary_unary(b"", call)
        assert call.status is code
        assert any(code.name in name for name in stage.transmitter.counters)

    perform(tmp_path, act)


def test_a_fetch_by_a_stranger_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        method, call = method_handlers(stage.handlers)["Fetch"], Call()
        request = pb.FetchRequest(caller=pb.Caller(client=1), name="a model").SerializeToString()
        with pytest.raises(grpc.aio.AbortError):
            assert [chunk async for chunk in method.unary_stream(request, call)] == []
        assert call.status is grpc.StatusCode.UNAUTHENTICATED
        assert any("Fetch" in name and "UNAUTHENTICATED" in name for name in stage.transmitter.counters)

    perform(tmp_path, act)


@pytest.mark.slow
def test_a_method_whose_name_is_no_text_does_not_close_the_door(tmp_path: Path) -> None:
    """Such a name ends gRPC's own loop: the door must be open again, and the calls that were held must end as they would have."""
    with bench(
        tmp_path, Toy(clients=4, buffer=1, rounds=UNTIL_STOPPED), transmitters=1, hold_seconds=3.0, devices=4, patience=60.0
    ) as desk:
        held = desk.newcomer()
        result: list[str] = []
        waiting = threading.Thread(target=lambda: result.append(held.check(hold=True)[0].WhichOneof("what") or ""))
        waiting.start()
        pids = desk.ground.transmitters()
        for name in (b"/\xff", b"/fedfleet.wire.Fleet/Check\xc3", b"/\x80\x80/\xfe"):
            with grpc.insecure_channel(desk.ground.address) as channel, pytest.raises(grpc.RpcError):
                channel.unary_unary(name)(b"", timeout=2.0)
            answered = wait_for(lambda: _answers(desk.again(held)), "a server that answers", seconds=60.0)
            assert answered == "later"
        waiting.join(60)
        assert result == ["later"], "a call that was held before is answered"
        assert desk.ground.transmitters() == pids
        assert "Traceback" not in desk.ground.said


def _answers(puppet: Puppet) -> str:
    try:
        return puppet.check()[0].WhichOneof("what") or ""
    except grpc.RpcError:
        return ""
