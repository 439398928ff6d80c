"""What serving could cost at least: gRPC alone, our two calls with handlers that do nothing, and the server itself, by turns.

    python -m benchmarks.server_bound [--clients 2000] [--payload-bytes 100000] [--rounds 4] [--seconds 3] [--repeats 2] [--json]

Processor time of an update by process, in milliseconds: what the server loop, the frontend (or the only process of a server) and the
load generator take. Rates are those of the moment, and mean something on a machine without other work only. `share` is the
processor time of gRPC alone (grpc.aio, the same bytes, the first row) divided by that of the row.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from fedfleet.executors.child_process import Child, read_message, send_message
from fedfleet.network.frontend import grpc_door
from fedfleet.network.operations.process_memory import infrequent_gc, keep_freed_memory
from fedfleet.network.protocol.fleet_pb2 import Answer, Blob, Later, Over, Receipt, Work
from fedfleet.network.protocol.frames import INLINE_BYTES, crc32c, encode_frame
from fedfleet.network.security.secrets import run_key
from fedfleet.network.stress import raw_grpc
from fedfleet.network.stress.channels import SERVER
from fedfleet.network.stress.meters import cpu_seconds
from fedfleet.network.stress.stress_plan import Dummy, dummy_update
from fedfleet.network.stress.stress_run import Stress, answer_of, loads_of, run_stress

SELF, GENERATOR = "benchmarks.server_bound", "fedfleet.network.stress.load_generator"
_SERVE = "serve"  # the argument of a process of this benchmark
PATIENCE = 120.0


class Row(NamedTuple):
    """One measurement: updates a second, calls an update, milliseconds of an update by process."""

    updates_per_second: float
    calls: float
    loop_ms: float
    frontend_ms: float
    generator_ms: float

    @property
    def all_ms(self) -> float:
        """Of all processes."""
        return self.loop_ms + self.frontend_ms + self.generator_ms


def raw_row(stress: Stress, seconds: float, *, aio: bool) -> Row:
    """Two calls with the same bytes, of grpc.aio or of the server that a frontend has: the better of single messages and streams."""
    raw = raw_grpc.Raw(1, 1, stress.in_flight, stress.dummy.payload_bytes, seconds)
    form = "unary" if stress.dummy.payload_bytes <= INLINE_BYTES else "stream"
    with ExitStack() as stack:
        server = stack.enter_context(Child(SELF, {"role": "raw", "aio": aio, "nbytes": raw.nbytes}, arguments=[_SERVE]))
        address = server.answer(PATIENCE)["address"]
        load = stack.enter_context(Child(raw_grpc.__name__, {"role": "load", **asdict(raw), "address": address}))
        load.answer(PATIENCE)
        before = cpu_seconds(server.pid), cpu_seconds(load.pid)
        load.tell({"form": form})
        done = load.answer(seconds + PATIENCE)
        used = cpu_seconds(server.pid) - before[0], cpu_seconds(load.pid) - before[1]
    updates = done["updates"]
    return Row(updates / done["seconds"], 2.0, 0.0, used[0] * 1e3 / updates, used[1] * 1e3 / updates)


def empty_row(stress: Stress, seconds: float, *, aio: bool) -> Row:
    """Our two calls and our load generator, against handlers that answer with bytes that are ready."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        told = {"role": "empty", "aio": aio, "nbytes": stress.dummy.payload_bytes, "folder": folder, "seconds": seconds}
        server = stack.enter_context(Child(SELF, told, arguments=[_SERVE]))
        at = server.answer(PATIENCE)
        load = stack.enter_context(Child(GENERATOR, asdict(loads_of(stress, at, "")[0])))
        load.answer(PATIENCE)
        before, began = cpu_seconds(server.pid), time.monotonic()
        load.tell({"go": True})
        server.answer(seconds + PATIENCE)
        load.ask_to_end()
        tally = load.answer(PATIENCE)["tally"]
        took, used = time.monotonic() - began, cpu_seconds(server.pid) - before
    updates = max(1, tally["updates"])
    calls = (tally["checks"] + sum(tally["statuses"].values())) / updates
    return Row(updates / took, calls, 0.0, used * 1e3 / updates, tally["cpu_seconds"] * 1e3 / updates)


def served_row(stress: Stress) -> Row:
    """The server itself."""
    answer = answer_of(run_stress(stress))
    cpu = answer["cpu_ms_per_update"]
    return Row(
        answer["updates_per_second"],
        answer["calls_per_update"],
        cpu["processor"],
        cpu["server"] - cpu["processor"],
        cpu["generators"],
    )


# ---- the servers of the first rows, in processes of their own ----------------------------------------------------------


async def _serve(methods: dict[str, Any], told: dict[str, Any], until: asyncio.Event | None, **said: Any) -> None:
    """Serve these methods, by full names, until standard input ends; say when `until` is set."""
    server = grpc.aio.server(options=SERVER) if told["aio"] else grpc_door.GrpcServer(methods, SERVER)
    if isinstance(server, grpc.aio.Server):
        by_service: dict[str, dict[str, Any]] = {}
        for path, handler in methods.items():
            service, name = path.strip("/").split("/")
            by_service.setdefault(service, {})[name] = handler
        handlers = [grpc.method_handlers_generic_handler(service, own) for service, own in by_service.items()]
        server.add_generic_rpc_handlers(tuple(handlers))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    send_message({"address": f"127.0.0.1:{port}", **said})
    if until is not None:
        await until.wait()
        send_message({"over": True})
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(0)


def _empty_methods(told: dict[str, Any], over: asyncio.Event) -> dict[str, Any]:
    """Check and Hand of our service with answers that are ready: always the same task, and later `over`."""
    model = dummy_update(told["nbytes"])
    blob = Blob(name="m", nbytes=len(model), crc32c=crc32c(model))
    work = encode_frame(Answer(work=Work(task=7, nonce=b"n" * 16, model=blob, inline=True, share=1.0, lease_seconds=600.0)), model)
    safe = encode_frame(Receipt(next=Answer(later=Later())))
    end = encode_frame(Answer(over=Over(reason="enough")))

    started = False

    async def check(data: bytes, call: Any) -> bytes:
        nonlocal started
        del data, call
        if not started:  # generators take their time to start
            started = True
            asyncio.get_running_loop().call_later(told["seconds"], over.set)
        return end if over.is_set() else work

    async def hand(data: bytes, call: Any) -> bytes:
        del data, call
        return safe

    methods = {"Check": grpc.unary_unary_rpc_method_handler(check), "Hand": grpc.unary_unary_rpc_method_handler(hand)}  # type: ignore[arg-type]
    return {grpc_door.method_path(name): handler for name, handler in methods.items()}


async def _serve_role(told: dict[str, Any]) -> None:
    if told["role"] == "raw":
        methods = raw_grpc.methods(bytes(told["nbytes"]))
        await _serve(methods, told, None)
        return
    over = asyncio.Event()
    key = Path(told["folder"]) / "run.key"
    run_key(key)
    await _serve(_empty_methods(told, over), told, over, key=str(key))


# ---- the table ---------------------------------------------------------------------------------------------------------


def measure(stress: Stress, seconds: float) -> dict[str, Row]:
    """All rows once; our two calls carry models that fit into one message only."""
    small = stress.dummy.payload_bytes <= INLINE_BYTES
    rows = {
        "gRPC alone, grpc.aio": raw_row(stress, seconds, aio=True),
        "gRPC alone, server of a frontend": raw_row(stress, seconds, aio=False),
    }
    if small:
        rows["our calls, empty handlers, grpc.aio"] = empty_row(stress, seconds, aio=True)
        rows["our calls, empty handlers, server of a frontend"] = empty_row(stress, seconds, aio=False)
    options = {name: getattr(stress, name) for name in ("dummy", "transmitters", "in_flight")}
    rows["FedFleet, not durable"] = served_row(Stress(**options, raw=False, durable=False))
    rows["FedFleet, durable"] = served_row(Stress(**options, raw=False))
    rows["FedFleet, durable, over HTTP"] = served_row(Stress(**options, raw=False, http=True))
    return rows


def table(runs: list[dict[str, Row]]) -> list[dict[str, Any]]:
    """The medians of several runs."""
    medians = {
        name: Row(*(statistics.median(column) for column in zip(*(run[name] for run in runs), strict=True))) for name in runs[0]
    }
    first = next(iter(medians.values()))
    return [
        {"row": name, **row._asdict(), "all_ms": row.all_ms, "share": first.all_ms / row.all_ms} for name, row in medians.items()
    ]


def main() -> None:
    """Measure, and print a table."""
    if sys.argv[1:] == [_SERVE]:
        told = read_message()
        keep_freed_memory()
        with infrequent_gc():
            asyncio.run(_serve_role(told))
        return
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--clients", type=int, default=2000)
    words.add_argument("--payload-bytes", type=int, default=100_000)
    words.add_argument("--rounds", type=int, default=4)
    words.add_argument("--seconds", type=float, default=3.0)
    words.add_argument("--repeats", type=int, default=2)
    words.add_argument("--json", action="store_true")
    asked = words.parse_args()
    stress = Stress(Dummy(asked.clients, asked.payload_bytes, asked.rounds), transmitters=1).with_defaults()
    rows = table([measure(stress, asked.seconds) for _ in range(asked.repeats)])
    if asked.json:
        print(json.dumps(rows))
        return
    print(f"{'':48}{'updates/s':>10}{'calls':>7}{'loop':>8}{'frontend':>10}{'load':>8}{'all':>8}{'share':>8}")
    for r in rows:
        numbers = (
            f"{r['updates_per_second']:10.1f}{r['calls']:7.2f}{r['loop_ms']:8.3f}{r['frontend_ms']:10.3f}{r['generator_ms']:8.3f}"
        )
        print(f"{r['row']:48}{numbers}{r['all_ms']:8.3f}{r['share']:8.1%}")


if __name__ == "__main__":
    main()
