"""gRPC that does nothing else: the same bytes down and up through as many processes, as the limit of any server built on it.

An update is two calls, one that brings the model and one that takes the report, either as single messages (unary) or as streams of
1 MiB chunks. The better of both is the limit. The module is also the program of its processes (see `child_process`).
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any, Literal, NamedTuple

import grpc

from fedfleet.executors.child_process import Child, read_message, send_message
from fedfleet.network.operations.process_memory import infrequent_gc, keep_freed_memory
from fedfleet.network.protocol.frames import CHUNK
from fedfleet.network.stress.channels import CHANNEL, SERVER, Target, channel_to, credentials_for
from fedfleet.network.stress.event_loop import run
from fedfleet.network.stress.meters import cpu_seconds

Form = Literal["unary", "stream"]
_SERVICE = "fedfleet.raw.Raw"
_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Raw:
    """What raw gRPC is measured with: servers, load generators, calls in flight over all of these, bytes, seconds of each form."""

    servers: int
    generators: int
    in_flight: int
    nbytes: int
    seconds: float = 2.0
    channels: int = 8
    certificate: str = ""
    key: str = ""
    ca: str = ""


class RawRate(NamedTuple):
    """Updates per second, and the processor time of each in all processes together."""

    per_second: float
    cpu_ms: float


def raw_rates(raw: Raw) -> dict[str, RawRate]:
    """What each form reaches."""
    with ExitStack() as stack:
        port_socket = stack.enter_context(reserve_port())
        port = port_socket.getsockname()[1]
        settings = {"role": "serve", "port": port, **asdict(raw)}
        servers = [stack.enter_context(Child(__name__, settings)) for _ in range(raw.servers)]
        for server in servers:
            server.answer(_PATIENCE)
        address = f"127.0.0.1:{port}"
        share = max(1, raw.in_flight // raw.generators)
        settings = {"role": "load", "address": address, **asdict(raw), "in_flight": share}
        loads = [stack.enter_context(Child(__name__, settings)) for _ in range(raw.generators)]
        for load in loads:
            load.answer(_PATIENCE)
        pids = [child.pid for child in (*servers, *loads)]
        return {form: _rate(loads, form, raw.seconds, pids) for form in ("unary", "stream")}


def _rate(loads: list[Child], form: Form, seconds: float, pids: list[int]) -> RawRate:
    before = sum(map(cpu_seconds, pids))
    for load in loads:
        load.tell({"form": form})
    answers = [load.answer(seconds + _PATIENCE) for load in loads]
    used = sum(map(cpu_seconds, pids)) - before
    rate = sum(answer["updates"] / answer["seconds"] for answer in answers)
    return RawRate(rate, used * 1e3 / max(1, sum(answer["updates"] for answer in answers)))


def reserve_port() -> socket.socket:
    """A socket that keeps a free port of the loopback, which others may share, without listening."""
    port_socket = socket.socket()
    port_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    port_socket.bind(("127.0.0.1", 0))
    return port_socket


# ---- the server -------------------------------------------------------------------------------------------------


def methods(payload: bytes) -> dict[str, Any]:
    """What gRPC alone serves, by full names: this payload down, any payload up."""
    chunks = [payload[i : i + CHUNK] for i in range(0, len(payload), CHUNK)]

    async def down(request: bytes, context: Any) -> bytes:
        del request, context
        return payload

    async def up(request: bytes, context: Any) -> bytes:
        del request, context
        return b"ok"

    async def down_stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
        del request, context
        for chunk in chunks:
            yield chunk

    async def up_stream(requests: AsyncIterator[bytes], context: Any) -> bytes:
        del context
        async for _ in requests:
            pass
        return b"ok"

    return {
        f"/{_SERVICE}/Down": grpc.unary_unary_rpc_method_handler(down),
        f"/{_SERVICE}/Up": grpc.unary_unary_rpc_method_handler(up),
        f"/{_SERVICE}/DownStream": grpc.unary_stream_rpc_method_handler(down_stream),
        f"/{_SERVICE}/UpStream": grpc.stream_unary_rpc_method_handler(up_stream),
    }


async def _serve(settings: dict[str, Any]) -> None:
    server = grpc.aio.server(options=SERVER)
    by_name = {path.rpartition("/")[2]: handler for path, handler in methods(bytes(settings["nbytes"])).items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, by_name),))
    address = f"127.0.0.1:{settings['port']}"
    secure = credentials_for(settings["certificate"], settings["key"])
    if secure is None:
        server.add_insecure_port(address)
    else:
        server.add_secure_port(address, secure)
    await server.start()
    send_message({"ready": True})
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(0)


# ---- the load ---------------------------------------------------------------------------------------------------


class _Calls:
    """The four calls over one channel."""

    def __init__(self, channel: grpc.aio.Channel, nbytes: int) -> None:
        path = f"/{_SERVICE}/".__add__
        self._down, self._up = channel.unary_unary(path("Down")), channel.unary_unary(path("Up"))
        self._down_stream = channel.unary_stream(path("DownStream"))
        self._up_stream = channel.stream_unary(path("UpStream"))
        self._payload = bytes(nbytes)
        self._chunks = [self._payload[i : i + CHUNK] for i in range(0, nbytes, CHUNK)]

    async def unary(self) -> None:
        """One update in single messages."""
        await self._down(b"give")
        await self._up(self._payload)

    async def stream(self) -> None:
        """One update in streams."""
        call = self._down_stream(b"give")
        async for _ in call:
            pass
        await self._up_stream(self._pieces())

    async def _pieces(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


async def _load(settings: dict[str, Any]) -> None:
    target = Target(settings["address"], settings["ca"])
    channels = [channel_to(target, CHANNEL) for _ in range(settings["channels"])]
    calls = [_Calls(channel, settings["nbytes"]) for channel in channels]
    await asyncio.gather(*(channel.channel_ready() for channel in channels))
    send_message({"ready": True})
    while request := await asyncio.to_thread(read_message):
        send_message(await _exchange(calls, request["form"], settings["in_flight"], settings["seconds"]))
    for channel in channels:
        await channel.close()


async def _exchange(calls: list[_Calls], form: Form, in_flight: int, seconds: float) -> dict[str, float]:
    """How many updates were exchanged in a closed loop; one unhurried exchange per channel goes before."""
    work = [each.unary if form == "unary" else each.stream for each in calls]
    await asyncio.gather(*(each() for each in work))
    start = perf_counter()
    end, count = start + seconds, 0

    async def loop(exchange: Any) -> None:
        nonlocal count
        while perf_counter() < end:
            await exchange()
            count += 1

    await asyncio.gather(*(loop(work[i % len(work)]) for i in range(in_flight)))
    return {"updates": count, "seconds": perf_counter() - start}


def main() -> None:
    """Play the role that the first line gives."""
    settings = read_message()
    keep_freed_memory()
    with infrequent_gc():  # both as the processes that it is compared with
        # The load as that of a stress run; the server as whoever uses grpc.aio has it.
        asyncio.run(_serve(settings)) if settings["role"] == "serve" else run(_load(settings))


if __name__ == "__main__":
    main()
