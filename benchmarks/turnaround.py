"""How long work takes from the decision to a device's hand, and whether a burst of calls loses any.

    python -m benchmarks.turnaround [--clients 1000] [--payload-bytes 4000] [--rounds 12] [--burst 10000] [--json]

All clients wait on the line when a round begins. Counted is from TasksSent in the journal to the moment at which a device has read
its task, over all rounds but the first; server, generator and devices are on this machine. The burst is so many check-ins at once,
each of another client, against a server that has work for all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from fedfleet.executors.child_process import Child
from fedfleet.network.protocol.fleet_pb2 import Caller, CheckIn
from fedfleet.network.protocol.frames import method_path
from fedfleet.network.security.secrets import run_key, secret_of
from fedfleet.network.stress.channels import Target, channel_to
from fedfleet.network.stress.stress_plan import Dummy
from fedfleet.network.stress.stress_run import Keys, Stress, loads_of, server_settings

TRAIN_SECONDS = 1.0  # else the first devices would hand in while the last still wait, on the same processor
HOST, GENERATOR = "fedfleet.network.stress.stress_server", "fedfleet.network.stress.load_generator"


def turnaround(stress: Stress) -> dict[str, Any]:
    """Milliseconds from TasksSent to the task in hand."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        host = stack.enter_context(Child(HOST, server_settings(stress, folder, Keys())))
        at = host.answer(120)
        load = loads_of(stress, at, "")[0]
        load = replace(load, waiting=stress.dummy.clients, trace=True, train_seconds=TRAIN_SECONDS)
        generator = stack.enter_context(Child(GENERATOR, asdict(load)))
        generator.answer(120)
        generator.tell({"go": True})
        said = host.answer(600)
        generator.ask_to_end()
        taken = generator.answer(60)["tally"]["taken"]
    sent = {round: at["clock"] + moment for round, moment in said["sent"]}
    late = np.array([moment - sent[round] for round, moment in taken if round in sent and round > min(sent)]) * 1e3
    shares = {f"p{q}": round(float(np.percentile(late, q)), 1) for q in (50, 90, 99, 100)}
    return {"clients": stress.dummy.clients, "tasks": len(late), **shares}


def burst(calls: int) -> dict[str, Any]:
    """How many of so many calls at once are answered."""
    stress = Stress(Dummy(calls, 4000, 2)).with_defaults()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        host = stack.enter_context(Child(HOST, server_settings(stress, folder, Keys())))
        return {"calls": calls, "answers": asyncio.run(_called(host.answer(120), calls))}


async def _called(at: dict[str, Any], calls: int) -> dict[str, int]:
    key = run_key(Path(at["key"]))
    channels = [channel_to(Target(at["address"])) for _ in range(8)]
    await asyncio.gather(*(channel.channel_ready() for channel in channels))
    check = [channel.unary_unary(method_path("Check")) for channel in channels]

    async def one(client: int) -> str:
        caller = Caller(client=client, secret=secret_of(key, client, 1))
        try:
            await check[client % len(check)](CheckIn(caller=caller).SerializeToString())
        except grpc.aio.AioRpcError as wrong:
            return wrong.code().name
        return "OK"

    answers = Counter(await asyncio.gather(*(one(client) for client in range(calls))))
    await asyncio.gather(*(channel.close() for channel in channels))
    return dict(answers)


def main() -> None:
    """Measure both, and print them."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--clients", type=int, default=1000)
    words.add_argument("--payload-bytes", type=int, default=4000)
    words.add_argument("--rounds", type=int, default=12)
    words.add_argument("--burst", type=int, default=10_000)
    words.add_argument("--transmitters", type=int, default=1)
    words.add_argument("--json", action="store_true")
    asked = words.parse_args()
    dummy = Dummy(asked.clients, asked.payload_bytes, asked.rounds)
    got = {
        "turnaround_ms": turnaround(Stress(dummy, transmitters=asked.transmitters).with_defaults()),
        "burst": burst(asked.burst),
    }
    print(json.dumps(got) if asked.json else "\n".join(f"{name}: {value}" for name, value in got.items()))


if __name__ == "__main__":
    main()
