"""The server of a stress run: the very server of `fedfleet serve`, with a plan in which nobody trains.

It is the program of its process (see `child_process`): told how to serve, it answers with its address and the file of its key,
and when the last model is made, with the moment of each. It stops when its standard input closes.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core.events import Event, ModelCommitted, TasksSent
from fedfleet.core.records import Ints, Score
from fedfleet.core.rng import client_keys
from fedfleet.core.sources import DataSource, World
from fedfleet.core.trees import Tree
from fedfleet.executors.child_process import read_message, send_message
from fedfleet.network.evaluation.evaluators import EvalResult
from fedfleet.network.security.enrolment import Registry
from fedfleet.network.security.enrolment_request import Terms
from fedfleet.network.security.secrets import run_key
from fedfleet.network.server.options import ServeOptions
from fedfleet.network.server.serve import ListeningServer, ServerStopped, serve
from fedfleet.network.server.served_plan import ServedRun
from fedfleet.network.server.server_loop import ServerLoop
from fedfleet.network.stress.stress_plan import SAMPLES, Dummy, dummy_plan
from fedfleet.store import journal as journals
from fedfleet.world.devices import homogeneous
from fedfleet.world.states import always_on

_FAREWELL = 0.2  # seconds: generators are told by whoever started them


class NoEvaluator:
    """Judges no model: there are no samples."""

    async def evaluate(self, version: int, params: Tree, clients: bool) -> EvalResult:
        """Nothing right of nothing."""
        del version, params, clients
        return EvalResult(Score(0, 0, 0.0))

    async def close(self) -> None:
        """Nothing was opened."""


def dummy_world(clients: int) -> World:
    """Clients that claim to hold samples, all alike."""
    keys, sizes = client_keys(clients), np.full(clients, SAMPLES, np.int64)
    nothing: Ints = np.zeros(0, np.int64)
    data = DataSource(lambda client, split, round: nothing, lambda round: sizes, nothing, nothing)
    return World(keys, homogeneous()(keys, 0), always_on()(keys, 0), data)


def serve_dummy(settings: dict[str, Any]) -> None:
    """Serve a dummy plan to its end."""
    dummy, folder = Dummy(**settings["dummy"]), Path(settings["folder"]) / "run"
    (folder / "wire").mkdir(parents=True, mode=0o700)
    path, committed, sent = folder / "wire" / "run.key", list[float](), list[tuple[int, float]]()
    key = run_key(path)

    def listening(server: ServerLoop, at: ListeningServer) -> None:
        clock = time.monotonic() - server.now()  # of the run's first moment
        send_message({"address": at.address, "http": at.http, "key": str(path), "clock": clock})

    def watch(events: Sequence[Event]) -> None:
        committed.extend(event.time for event in events if isinstance(event, ModelCommitted))
        sent.extend((event.round, event.time) for event in events if isinstance(event, TasksSent))
        if len(committed) == dummy.rounds:
            send_message({"committed": committed, "sent": sent})
            committed.append(np.inf)  # said once

    journal = journals.create(folder / "run.db", "stress")
    registry = Registry(folder / "wire" / "devices.db", key, Terms(dummy.clients))
    run = ServedRun(
        dummy_plan(dummy), dummy_world(dummy.clients), NoEvaluator(), registry, key, lambda client: b"{}", journal, folder,
        "stress", on_events=watch,
    )  # fmt: skip
    options = ServeOptions(
        address="127.0.0.1:0", devices=dummy.clients, farewell_seconds=_FAREWELL, transmitters=settings["transmitters"],
        in_flight_bytes=max(settings["in_flight_bytes"] * max(1, settings["transmitters"]), ServeOptions().in_flight_bytes),
        durable=settings["durable"], streaming=settings["streaming"], encode_once=settings["encode_once"], quiet=True,
        http="127.0.0.1:0" if settings["http"] else "",
    )  # fmt: skip
    tls = {"certificate": settings["certificate"], "key": settings["certificate_key"]} if settings["certificate"] else None
    try:
        serve(run, options, tls=tls, on_listening=listening)
    finally:
        registry.close()
        journal.close()


def _follow_parent() -> None:
    """Stop in order when whoever started this process lets go, or is killed."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGINT)


def main() -> None:
    """Serve as told."""
    settings = read_message()
    threading.Thread(target=_follow_parent, daemon=True).start()
    try:
        serve_dummy(settings)
    except (ServerStopped, KeyboardInterrupt):
        return


if __name__ == "__main__":
    main()
