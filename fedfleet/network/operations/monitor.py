"""Everything that people see of a server while it serves: figures, the live line, the endpoints, the log."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fedfleet.core.events import Event, ModelCommitted, ReportRejected, RoundFailed, RunEnded, TaskLost
from fedfleet.network.operations.counters import summed
from fedfleet.network.operations.health import Board, turned
from fedfleet.network.operations.http_endpoints import Endpoints, pages_of
from fedfleet.network.operations.live_line import LiveLine
from fedfleet.network.operations.logs import RunLog
from fedfleet.network.operations.metrics import Figures, exposition, figures_of, status_json
from fedfleet.network.operations.process_memory import Resident, resident_all
from fedfleet.network.operations.run_progress import Progress, follow
from fedfleet.network.security.secrets import status_token
from fedfleet.network.server.options import Serve
from fedfleet.network.server.served_plan import Served
from fedfleet.network.server.waits import waiting_for

if TYPE_CHECKING:
    from fedfleet.network.server.server_loop import Processor

EVERY = 0.5  # seconds between figures
TOLD = "now.json"  # in the folder `wire`, while the server runs: how it stands, for whoever watches the folder
TOLD_EVERY = 1.0
MEMORY_EVERY = 5.0  # asking the system about memory takes milliseconds


class Oversight:
    """Watches one server; a resource, to be closed. `draining` is what it says while it stops."""

    def __init__(self, served: Served, options: Serve, before: Iterable[Event] = ()) -> None:
        """`before` are the events of a run that goes on."""
        self.progress, self.draining = Progress(), ""
        for event in before:
            follow(self.progress, event)
        self._memory: dict[str, Resident] = {}
        self._measured = float("-inf")
        self._began = time.monotonic()
        self._told = (served.folder / "wire" / TOLD, float("-inf"))
        wire = served.folder / "wire"
        self.board = Board(
            figures_of(self.progress, served.name, run_seconds=0.0, transmitters=max(1, options.transmitters))
        )
        if options.metrics:
            exposition(self.board.figures)  # else a missing library would be found out by the first who asks
        self.endpoints = Endpoints(options.metrics, pages_of(self.board, wire)) if options.metrics else None
        shown = None if options.quiet else "warning"
        self.log = RunLog(wire / "log.jsonl", served.name, level=options.log_level, shown=shown)
        self.log.hide(served.key.data)
        self.live = LiveLine(quiet=options.quiet)
        _write_private(wire / "status.token", status_token(served.key))

    def hear(self, events: Sequence[Event]) -> None:
        """Events of the run, as they happen."""
        for event in events:
            follow(self.progress, event)
            self._log_event(event)

    def figures(self, of: Processor) -> Figures:
        """How the server stands now."""
        book, tending, now = of.state.book, of.tending, of.now()
        known = figures_of(
            self.progress, of.served.name, run_seconds=now, devices_online=int(of.presence.present(now).sum()),
            declared=of.options.devices, enrolled=int(of.served.registry.enrolled.sum()),
            waiting_for=self.draining or waiting_for(of), uptime_seconds=time.monotonic() - self._began,
            counts=summed(of.totals), transmitters=len(tending.all) if tending else 0,
            transmitters_up=sum(t.ready for t in tending.all) if tending else 0,
            restarts=sum(t.deaths for t in tending.all) if tending else 0, draining=bool(self.draining), memory=self._memory,
        )  # fmt: skip
        return replace(known, round=book.round, version=book.version, running=book.running, arrived=book.arrived)

    async def watch(self, of: Processor) -> None:
        """Look at the server twice a second until this is cancelled."""
        while True:
            try:
                self.look(of)
                if time.monotonic() - self._measured >= MEMORY_EVERY:
                    self._measured = time.monotonic()
                    self._memory = await asyncio.to_thread(resident_all, _pids(of))
            except Exception as wrong:  # whatever it is, no run may end because somebody looks at it
                turned(self.board)
                self.log.say("error", "the figures of the server could not be made", error=wrong)
            await asyncio.sleep(EVERY)

    def look(self, of: Processor) -> None:
        """Show how the server stands now."""
        figures = self.figures(of)
        turned(self.board, figures)
        self.live.show(figures, time.monotonic())
        self._tell(of, figures)

    def _tell(self, of: Processor, figures: Figures) -> None:
        """Write who is there now beside the figures: of these only the number goes over the network."""
        path, when = self._told
        if time.monotonic() - when < TOLD_EVERY:
            return
        present = np.packbits(of.presence.present(of.now())).tobytes()
        said = json.dumps({"status": json.loads(status_json(figures)), "present": base64.b64encode(present).decode()})
        self._told = (path, time.monotonic())
        with suppress(OSError):  # a full disk has others to complain about it
            _write_private(path.with_suffix(".part"), said)
            path.with_suffix(".part").replace(path)

    def close(self) -> None:
        """Take the line away, stop listening, write what is to be logged; nobody is there any more."""
        for path in (self._told[0], self._told[0].with_suffix(".part")):
            path.unlink(missing_ok=True)
        self.live.close()
        if self.endpoints is not None:
            self.endpoints.close()
        self.log.close()

    def _log_event(self, event: Event) -> None:
        say = self.log.say
        match event:
            case ModelCommitted():
                say("info", "a model was made", round=event.round, version=event.version, folded=event.folded)
            case RoundFailed():
                say("warning", "a round failed", round=event.round, reason=event.reason)
            case TaskLost():
                say("info", "a task was lost", device=event.client, task=event.task, reason=event.reason)
            case ReportRejected():
                say("warning", "a report was rejected", device=event.client, task=event.task, reason=event.reason)
            case RunEnded():
                say("info", "the run ended", reason=event.reason)
            case _:
                pass


def _pids(of: Processor) -> dict[str, int]:
    own = {"processor": os.getpid()}
    if of.tending is not None:
        own |= {f"t{i}": t.process.pid for i, t in enumerate(of.tending.all) if t.process is not None}
    return own


def _write_private(path: os.PathLike[str], text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.fchmod(handle, 0o600)
        os.write(handle, f"{text}\n".encode())
    finally:
        os.close(handle)
