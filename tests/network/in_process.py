"""A served run of a spec inside this process: the server's own loop and door on loopback, and a thread for each device.

Nothing is started but threads, so that many small runs can be tried one after another.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fedfleet.app.assemble import Setup
from fedfleet.app.assemble.client_config import client_configs
from fedfleet.app.assemble.device_runtime import build_client_runtime
from fedfleet.core.errors import RunFailed
from fedfleet.core.events import Event
from fedfleet.core.trees import Tree
from fedfleet.executors.inline import inline
from fedfleet.network.device.client_loop import Device, DeviceOptions
from fedfleet.network.device.client_runtime import ClientRuntime
from fedfleet.network.device.device_store import DeviceStore
from fedfleet.network.device.server_calls import Connection
from fedfleet.network.evaluation.evaluators import EvalContext
from fedfleet.network.security.enrolment import Registry
from fedfleet.network.security.enrolment_request import Terms
from fedfleet.network.security.secrets import run_key
from fedfleet.network.server.options import ServeOptions
from fedfleet.network.server.serve import ListeningServer, serve
from fedfleet.network.server.served_plan import ServedRun
from fedfleet.network.server.server_loop import ServerLoop
from fedfleet.store import journal as journals
from fedfleet.store.noise_source import SEEDED, NoiseSource
from tests.network.evaluation.thread import ThreadEvaluator

# First weights come of PyTorch's own generator, which threads share: one device after another makes its own.
_BUILDING = threading.Lock()


@dataclass(slots=True)
class Served:
    """What a served run left: the last model, the journal, what devices said, and how they ended."""

    params: Tree
    events: list[Event]
    said: list[str] = field(default_factory=list[str])
    errors: list[str] = field(default_factory=list[str])


def serve_in_process(
    setup: Setup, folder: Path, *, engine: str = "torch", noising: NoiseSource = SEEDED, seconds: float = 120.0, **options: Any
) -> Served:
    """Serve a setup to all of its clients, each a thread here, until the run is over."""
    (folder / "wire").mkdir(parents=True, exist_ok=True)
    (folder / "aggregates").mkdir(exist_ok=True)
    clients, said, errors = setup.plan.clients, list[str](), list[str]()
    journal, key = journals.create(folder / "run.db", "toy"), run_key(folder / "wire" / "run.key")
    registry = Registry(folder / "wire" / "devices.db", key, Terms(clients, open=True))
    configs = client_configs(setup, local=True)
    context = EvalContext(setup.plan, setup.world, inline(setup.task))
    threads, timers = list[threading.Thread](), list[threading.Timer]()

    def start(server: ServerLoop, listening: ListeningServer) -> None:
        loop = asyncio.get_running_loop()
        late = RunFailed(f"the served run did not end within {seconds} s")
        timers.append(threading.Timer(seconds, lambda: loop.call_soon_threadsafe(server.turns.fail, late)))
        timers[-1].daemon = True
        timers[-1].start()
        for client in range(clients):
            store = folder / "stores" / str(client)
            target = partial(_attend, listening.address, store, client, engine, said.append, errors.append)
            threads.append(threading.Thread(target=target, daemon=True))
            threads[-1].start()

    served = ServedRun(
        setup.plan, setup.world, ThreadEvaluator(context), registry, key, configs, journal, folder, "toy", noising,
        setup.task.frozen or None, kind=setup.task.dataset.kind, label_shape=setup.task.dataset.y.shape[1:],
    )  # fmt: skip
    serving = ServeOptions(
        **{"address": "127.0.0.1:0", "devices": clients, "transmitters": 0, "quiet": True, "farewell_seconds": 5.0, **options}
    )
    try:
        state = serve(served, serving, on_listening=start)
        journal.flush()
    except RunFailed as failure:
        raise AssertionError(f"{failure}; devices said {said[-5:]} and failed with {errors}") from failure
    finally:
        for timer in timers:
            timer.cancel()
        registry.close()
        journal.close()
    for thread in threads:
        thread.join(seconds)
    return Served(state.server.params, list(journals.read(folder / "run.db")), said, errors)


def _attend(address: str, folder: Path, client: int, engine: Any, say: Callable[[str], None], fail: Callable[[str], None]) -> None:
    """Be one device until the run is over."""
    store, line = DeviceStore(folder), Connection(address)
    try:

        def make(config: bytes, fetch: Any) -> ClientRuntime:
            with _BUILDING:
                return build_client_runtime(config, None, fetch, None, engine)

        Device(line, store, DeviceOptions(client=client), make, lambda text: say(f"device {client}: {text}")).run()
    except Exception as error:
        fail(f"device {client}: {type(error).__name__}: {error}")
    finally:
        line.close()
        store.close()
