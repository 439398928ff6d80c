"""What an exchange costs the process that answers it: over gRPC (grpc.aio, the server of a frontend) and over the HTTP door, by turns.

    python -m benchmarks.http_door [--payload-bytes 100000] [--connections 64] [--seconds 3] [--repeats 3] [--tls] [--held N] [--json]

An exchange is two calls, one that brings the model and one that takes a report of as many bytes; handlers answer with bytes that are
ready. Each device has a connection of its own, as in a fleet. Figures are processor milliseconds of an exchange in the server's
process, and in that of the load, which is not the device's. Rates are those of the moment. With `--held` so many devices only wait, each on
a call that is held, and the figure is the kilobytes of the server's process for each of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import grpc

from fedfleet.executors.child_process import Child, read_message, send_message
from fedfleet.network.frontend import grpc_door
from fedfleet.network.frontend.http_door import HttpDoor
from fedfleet.network.operations.process_memory import infrequent_gc, keep_freed_memory
from fedfleet.network.protocol.frames import method_path
from fedfleet.network.security.certificates import CertificateRequest, make_certificates, utc_now
from fedfleet.network.security.tls import ClientFiles, client_context
from fedfleet.network.stress.channels import SERVER, Target, channel_to, credentials_for
from fedfleet.network.stress.meters import cpu_seconds
from fedfleet.network.stress.raw_grpc import reserve_port

SELF = "benchmarks.http_door"
PATIENCE = 120.0
SERVERS = {"grpc.aio": "grpc", "gRPC, server of a frontend": "grpc", "HTTP door": "http"}
HTTP2 = "HTTP door, HTTP/2"  # over TLS alone, and where h2 is installed


class Row(NamedTuple):
    """Exchanges a second, and processor milliseconds of one in the server's process and in the load's."""

    per_second: float
    server_ms: float
    load_ms: float


def measure(name: str, settings: dict[str, Any]) -> Row:
    """One server and one load in processes of their own."""
    with ExitStack() as stack:
        port = stack.enter_context(reserve_port())
        address = "127.0.0.1:{1}".format(*port.getsockname())
        told = {**settings, "address": address, "kind": name}
        server = stack.enter_context(Child(SELF, {"role": "serve", **told}, arguments=["role"]))
        server.answer(PATIENCE)
        load = stack.enter_context(Child(SELF, {"role": "load", **told}, arguments=["role"]))
        load.answer(PATIENCE)  # every connection has made an exchange
        before = cpu_seconds(server.pid), cpu_seconds(load.pid)
        load.tell({"go": True})
        done = load.answer(settings["seconds"] + PATIENCE)
        used = cpu_seconds(server.pid) - before[0], cpu_seconds(load.pid) - before[1]
    count = max(1, done["count"])
    return Row(count / done["seconds"], used[0] * 1e3 / count, used[1] * 1e3 / count)


def held_kilobytes(name: str, settings: dict[str, Any]) -> float:
    """Memory of a server's process for each device whose call it holds."""
    with ExitStack() as stack:
        port = stack.enter_context(reserve_port())
        told = {**settings, "address": "127.0.0.1:{1}".format(*port.getsockname()), "kind": name}
        server = stack.enter_context(Child(SELF, {"role": "serve", **told}, arguments=["role"]))
        server.answer(PATIENCE)
        before = resident_kilobytes(server.pid)
        load = stack.enter_context(Child(SELF, {"role": "load", **told}, arguments=["role"]))
        load.answer(PATIENCE)
        return (resident_kilobytes(server.pid) - before) / settings["connections"]


def resident_kilobytes(pid: int) -> int:
    """What a process has in memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


# ---- servers -----------------------------------------------------------------------------------------------------------


async def serve(told: dict[str, Any]) -> None:
    """Serve until standard input ends."""
    model = bytes(told["nbytes"])

    async def down(data: bytes, call: Any) -> bytes:
        del data, call
        return model

    async def up(data: bytes, call: Any) -> bytes:
        del data, call
        return b"ok"

    async def hold(data: bytes, call: Any) -> bytes:
        await asyncio.sleep(PATIENCE)
        return await up(data, call)

    methods = {"Check": down, "Hand": up, "Leave": hold}
    tls = {"certificate": told["certificate"], "key": told["key"]} if told["certificate"] else {}
    if told["kind"].startswith("HTTP door"):
        config = SimpleNamespace(http=told["address"], hold=4096, in_flight_bytes=1 << 30, tls=tls, origins=[], page=False)

        async def answer(method: str, data: bytes, call: Any) -> bytes:
            return await methods[method](data, call)

        service: Any = SimpleNamespace(frontend=SimpleNamespace(config=config), methods=methods, answer=answer)
        door = HttpDoor(service)
        await door.open()
        watch = asyncio.create_task(door.watch())
        send_message({"ready": True})
        await asyncio.to_thread(sys.stdin.read)
        watch.cancel()
        await door.close()
        return
    handlers = {name: grpc.unary_unary_rpc_method_handler(call) for name, call in methods.items()}  # type: ignore[arg-type]
    if told["kind"] == "grpc.aio":
        server: Any = grpc.aio.server(options=SERVER)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(grpc_door.SERVICE, handlers),))
    else:
        server = grpc_door.GrpcServer({method_path(name): handler for name, handler in handlers.items()}, SERVER)
    credentials = credentials_for(told["certificate"], told["key"])
    if credentials is None:
        server.add_insecure_port(told["address"])
    else:
        server.add_secure_port(told["address"], credentials)
    await server.start()
    send_message({"ready": True})
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(0)


# ---- loads -------------------------------------------------------------------------------------------------------------


class GrpcDevice:
    """One device over gRPC."""

    def __init__(self, told: dict[str, Any]) -> None:
        self._channel = channel_to(Target(told["address"], told["ca"]))
        names = ("Check", "Hand", "Leave")
        self._check, self._hand, self._wait = (self._channel.unary_unary(method_path(name)) for name in names)
        self._report = bytes(told["nbytes"])

    async def exchange(self) -> None:
        """The model, then a report."""
        await self._check(b"give me work")
        await self._hand(self._report)

    async def wait(self) -> None:
        """A call that is held."""
        await self._wait(b"x" * 60)

    async def close(self) -> None:
        """Hang up."""
        await self._channel.close()


class HttpDevice:
    """One device over HTTP."""

    def __init__(self, told: dict[str, Any]) -> None:
        self._told, self._streams = told, None
        report = bytes(told["nbytes"])
        self._requests = [_request("Check", b"give me work"), _request("Hand", report)]

    async def exchange(self) -> None:
        """The model, then a report."""
        for request in self._requests:
            await self._ask(request)

    async def wait(self) -> None:
        """A call that is held."""
        await self._ask(_request("Leave", b"x" * 60))

    async def _ask(self, request: bytes) -> None:
        if self._streams is None:
            host, port = self._told["address"].split(":")
            context: ssl.SSLContext | None = client_context(ClientFiles(Path(self._told["ca"]))) if self._told["ca"] else None
            self._streams = await asyncio.open_connection(host, int(port), ssl=context, limit=1 << 20)
        reader, writer = self._streams
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head[head.index(b"Content-Length: ") + 16 :].split(b"\r\n", 1)[0])
        await reader.readexactly(length)

    async def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()


class Http2Device:
    """One device over HTTP/2."""

    def __init__(self, told: dict[str, Any]) -> None:
        from h2.config import H2Configuration
        from h2.connection import H2Connection

        self._told, self._report, self._streams = told, bytes(told["nbytes"]), None
        self._h2 = H2Connection(H2Configuration(client_side=True))

    async def exchange(self) -> None:
        """The model, then a report."""
        await self._ask("Check", b"give me work")
        await self._ask("Hand", self._report)

    async def _ask(self, name: str, body: bytes) -> None:
        from h2.events import DataReceived, StreamEnded

        h2 = self._h2
        if self._streams is None:
            context = client_context(ClientFiles(Path(self._told["ca"])))
            context.set_alpn_protocols(["h2"])
            host, port = self._told["address"].split(":")
            self._streams = await asyncio.open_connection(host, int(port), ssl=context)
            h2.initiate_connection()
        reader, writer = self._streams
        stream = h2.get_next_available_stream_id()
        head = [(":method", "POST"), (":path", f"/v1/call/{name}"), (":scheme", "https"), (":authority", "a")]
        h2.send_headers(stream, [*head, ("content-length", str(len(body)))])
        left, over = memoryview(body), False
        while not over:
            while left and (room := min(h2.local_flow_control_window(stream), h2.max_outbound_frame_size)) > 0:
                h2.send_data(stream, bytes(left[:room]), end_stream=len(left) <= room)
                left = left[room:]
            writer.write(h2.data_to_send())
            for event in h2.receive_data(await reader.read(1 << 16)):
                if isinstance(event, DataReceived):
                    h2.acknowledge_received_data(event.flow_controlled_length, stream)
                over = over or isinstance(event, StreamEnded)
        writer.write(h2.data_to_send())

    async def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()


def _request(name: str, body: bytes) -> bytes:
    return (
        f"POST /v1/call/{name} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/octet-stream\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


async def load(told: dict[str, Any]) -> None:
    """All devices in a closed loop for so many seconds, when told to."""
    kind: Any = Http2Device if told["kind"] == HTTP2 else GrpcDevice if SERVERS[told["kind"]] == "grpc" else HttpDevice
    devices = [kind(told) for _ in range(told["connections"])]
    if told["held"]:
        waiting = list[asyncio.Task[None]]()
        for device in devices:
            waiting.append(asyncio.create_task(device.wait()))
            await asyncio.sleep(0.005)  # one after the other, as devices come
        await asyncio.sleep(told["seconds"])
        assert not any(task.done() for task in waiting)
        send_message({"ready": True})
        await asyncio.to_thread(read_message)
        return
    await asyncio.gather(*(device.exchange() for device in devices))
    send_message({"ready": True})
    await asyncio.to_thread(read_message)
    start, count = time.perf_counter(), 0
    end = start + told["seconds"]

    async def loop(device: Any) -> None:
        nonlocal count
        while time.perf_counter() < end:
            await device.exchange()
            count += 1

    await asyncio.gather(*map(loop, devices))
    send_message({"count": count, "seconds": time.perf_counter() - start})
    for device in devices:
        await device.close()


def main() -> None:
    """Measure, and print a table."""
    if sys.argv[1:] == ["role"]:
        told = read_message()
        keep_freed_memory()
        with infrequent_gc():
            asyncio.run(serve(told) if told["role"] == "serve" else load(told))
        return
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--payload-bytes", type=int, default=100_000)
    words.add_argument("--connections", type=int, default=64)
    words.add_argument("--seconds", type=float, default=3.0)
    words.add_argument("--repeats", type=int, default=3)
    words.add_argument("--tls", action="store_true")
    words.add_argument("--held", type=int, default=0)
    words.add_argument("--json", action="store_true")
    asked = words.parse_args()
    settings: dict[str, Any] = {
        "nbytes": asked.payload_bytes,
        "connections": asked.connections,
        "seconds": asked.seconds,
        "held": asked.held,
    }
    with tempfile.TemporaryDirectory() as folder:
        files = make_certificates(Path(folder) / "tls", CertificateRequest(hosts=("127.0.0.1",)), utc_now()) if asked.tls else None
        settings |= {name: str(getattr(files, name)) if files else "" for name in ("certificate", "key", "ca")}
        if asked.held:
            for name in SERVERS:
                print(
                    f"{name:30}{held_kilobytes(name, {**settings, 'connections': asked.held}):8.1f} kB for each call that is held"
                )
            return
        names = [*SERVERS, *([HTTP2] if asked.tls and find_spec("h2") else [])]
        runs = [{name: measure(name, settings) for name in names} for _ in range(asked.repeats)]
    medians = {
        name: Row(*(statistics.median(column) for column in zip(*(run[name] for run in runs), strict=True))) for name in names
    }
    first = next(iter(medians.values())).server_ms
    rows = [{"row": name, **row._asdict(), "of_first": row.server_ms / first} for name, row in medians.items()]
    if asked.json:
        print(json.dumps(rows))
        return
    print(f"{'':30}{'exchanges/s':>12}{'server ms':>11}{'load ms':>9}{'of grpc.aio':>13}")
    for row in rows:
        print(f"{row['row']:30}{row['per_second']:12.0f}{row['server_ms']:11.3f}{row['load_ms']:9.3f}{row['of_first']:13.0%}")


if __name__ == "__main__":
    main()
