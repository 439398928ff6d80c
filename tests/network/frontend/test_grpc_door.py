"""Listening: what is foreign or strange becomes a status, and every call is counted by how it ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest

from fedfleet.core.errors import Refused
from fedfleet.network.frontend.grpc_door import method_handlers
from fedfleet.network.frontend.service import RateLimited, Unauthenticated
from fedfleet.network.protocol import fleet_pb2 as pb
from tests.network.stage import Call, Stage, perform


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
