"""The wire without torch and without processes: toy devices as threads on loopback."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from fedfleet.core.events import Event
from fedfleet.core.parts import Plan
from fedfleet.core.sources import World
from fedfleet.engine.state import RunState
from fedfleet.runtime import journal as journals
from fedfleet.runtime.wire.desk import Errand, TaskDesk
from fedfleet.runtime.wire.device import Rebuilt, attend
from fedfleet.runtime.wire.server import serve
from fedfleet.runtime.wire.service import Service, listening
from fedfleet.testing.toys import opaque_executor

LOOPBACK = "127.0.0.1:0"


def served(plan: Plan, world: World, folder: Path) -> tuple[RunState, list[int], list[Event]]:
    """A run over loopback: where it ended, how many tasks each device did, and its events as they were journalled."""
    desk = TaskDesk(plan.clients)
    journal = journals.create(folder / "run.db")
    kit = Rebuilt(plan.algorithm, world, opaque_executor(), "toy")
    # The devices are joined last, when the server is gone: only then do all of them end, also after an error.
    with ThreadPoolExecutor(plan.clients) as threads, closing(journal):
        with listening(Service(desk, "spec", "toy"), desk, LOOPBACK, 1 << 20) as (address, server):
            server.start()
            devices = [threads.submit(attend, address, client, lambda text: kit) for client in range(plan.clients)]
            done = serve(plan, world, opaque_executor(), desk, devices=plan.clients, journal=journal, folder=folder)
        tasks = [d.result(10) for d in devices]
    return done, tasks, list(journals.read(folder / "run.db"))


def errand(task: int, client: int, sent_at: float = 0.0, *, tensors: bytes = b"") -> Errand:
    """Some work for a client."""
    return Errand(task, client, 0, tensors, 0, 1.0, 0, sent_at, 1.0)


def ready_desk(clients: int, **options: float) -> TaskDesk:
    """A desk at which all clients have enrolled and called."""
    desk = TaskDesk(clients, **options)
    for client in range(clients):
        desk.enrol(client)
        assert desk.pull(client, 0.0) is None
    desk.await_enrolled(clients)
    return desk
