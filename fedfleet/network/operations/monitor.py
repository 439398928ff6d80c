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
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from fedfleet.core.events import Event, ModelCommitted, ReportRejected, RoundFailed, RunEnded, TaskLost
from fedfleet.engine.state import Phase
from fedfleet.measure.run_progress import Progress
from fedfleet.network.operations.counters import sum_totals
from fedfleet.network.operations.http_endpoints import Endpoints, HealthBoard, mark_turn, pages_of
from fedfleet.network.operations.live_line import LiveLine
from fedfleet.network.operations.logs import RunLog
from fedfleet.network.operations.metrics import (
    EVALUATING,
    MAKING,
    PAUSE,
    Figures,
    exposition,
    figures_of,
    status_json,
)
from fedfleet.network.operations.process_memory import ProcessMemory, memory_of_all
from fedfleet.network.security.secrets import status_token
from fedfleet.network.server.options import ServeOptions
from fedfleet.network.server.served_plan import ServedRun

if TYPE_CHECKING:
    from fedfleet.network.server.server_loop import ServerLoop

FIGURES_EVERY = 0.5  # seconds between figures
STATUS_FILE = (
    "now.json"  # in the folder `wire`, while the server runs: how it stands, for programs that watch the folder
)
STATUS_EVERY = 1.0
_SHOWN = 3  # clients that a sentence names
MEMORY_EVERY = 5.0  # asking the system about memory takes milliseconds


class Monitor:
    """Watches one server; a resource, to be closed. `draining` is what it says while it stops."""

    def __init__(self, served: ServedRun, options: ServeOptions, before: Iterable[Event] = ()) -> None:
        """`before` are the events of a run that goes on."""
        self.progress, self.draining = Progress(), ""
        for event in before:
            self.progress.on(event)
        self._memory: dict[str, ProcessMemory] = {}
        self._measured_at = float("-inf")
        self._began = time.monotonic()
        self._last_status = (served.folder / "wire" / STATUS_FILE, float("-inf"))
        wire = served.folder / "wire"
        self.board = HealthBoard(
            figures_of(self.progress, served.name, run_seconds=0.0, transmitters=max(1, options.transmitters))
        )
        if options.metrics:
            exposition(self.board.figures)  # else a missing library would be found out by the first who asks
        self.endpoints = Endpoints(options.metrics, pages_of(self.board, wire)) if options.metrics else None
        stderr_level = None if options.quiet else "warning"
        self.log = RunLog(wire / "log.jsonl", served.name, level=options.log_level, stderr_level=stderr_level)
        self.log.hide(served.key.data)
        self.live = LiveLine(quiet=options.quiet)
        _write_private(wire / "status.token", status_token(served.key))

    def on_events(self, events: Sequence[Event]) -> None:
        """Events of the run, as they happen."""
        for event in events:
            self.progress.on(event)
            self._log_event(event)

    def figures(self, server: ServerLoop) -> Figures:
        """How the server stands now."""
        book, frontends, now = server.state.book, server.supervisor.frontends, server.now()
        known = figures_of(
            self.progress,
            server.served.name,
            run_seconds=now,
            devices_online=int(server.candidates.present(now).sum()),
            declared=server.options.devices,
            enrolled=int(server.served.registry.enrolled.sum()),
            waiting_for=self.draining or waiting_for(server),
            uptime_seconds=time.monotonic() - self._began,
            counts=sum_totals(server.supervisor.totals),
            transmitters=len(frontends),
            transmitters_up=sum(f.ready for f in frontends),
            restarts=sum(f.deaths for f in frontends),
            draining=bool(self.draining),
            memory=self._memory,
        )
        return replace(known, round=book.round, version=book.version, running=book.running, arrived=book.arrived)

    async def watch(self, server: ServerLoop) -> None:
        """Look at the server twice a second until this is cancelled."""
        while True:
            try:
                self.refresh(server)
                if time.monotonic() - self._measured_at >= MEMORY_EVERY:
                    self._measured_at = time.monotonic()
                    self._memory = await asyncio.to_thread(memory_of_all, _pids(server))
            except Exception as error:  # whatever it is, no run may end because its figures fail
                mark_turn(self.board)
                self.log.say("error", "the figures of the server could not be made", error=error)
            await asyncio.sleep(FIGURES_EVERY)

    def refresh(self, server: ServerLoop) -> None:
        """Show how the server stands now."""
        figures = self.figures(server)
        mark_turn(self.board, figures)
        self.live.show(figures, time.monotonic())
        self._write_status(server, figures)

    def _write_status(self, server: ServerLoop, figures: Figures) -> None:
        """Write which devices are there alongside the figures: only their number goes over the network."""
        path, written_at = self._last_status
        if time.monotonic() - written_at < STATUS_EVERY:
            return
        present = np.packbits(server.candidates.present(server.now())).tobytes()
        text = json.dumps({"status": json.loads(status_json(figures)), "present": base64.b64encode(present).decode()})
        self._last_status = (path, time.monotonic())
        with suppress(OSError):  # a full disk is reported elsewhere
            _write_private(path.with_suffix(".part"), text)
            path.with_suffix(".part").replace(path)

    def close(self) -> None:
        """Take the line away, stop listening, write what is to be logged."""
        for path in (self._last_status[0], self._last_status[0].with_suffix(".part")):
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


def _pids(server: ServerLoop) -> dict[str, int]:
    frontends = enumerate(server.supervisor.frontends)
    return {"processor": os.getpid()} | {f"t{i}": f.process.pid for i, f in frontends if f.process is not None}


def _write_private(path: os.PathLike[str], text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.fchmod(handle, 0o600)
        os.write(handle, f"{text}\n".encode())
    finally:
        os.close(handle)


def waiting_for(server: ServerLoop) -> str:
    """One sentence: what has to happen before the run goes on."""
    state, book = server.state, server.state.book
    if server.end_reason:
        return f"nothing: the run is over ({server.end_reason})"
    if state.phase is Phase.GATHERING:
        return f"{MAKING} {book.version + 1}"
    if state.phase in (Phase.EVALUATING, Phase.ENDING):
        return f"{EVALUATING} {book.version}"
    if server.is_asking():
        available = int((server.candidates.present(server.now()) | server.candidates.busy).sum())
        return f"devices: {available} of {server.options.devices} are here"
    # Any few of them: to sort a hundred thousand would hold up the loop.
    late = [int(w.assignments.clients[t - w.first]) for t, w in islice(state.running.items(), _SHOWN + 1)]
    names = ", ".join(map(str, sorted(late[:_SHOWN]))) + (" and others" if len(late) > _SHOWN else "")
    count = f"{book.running} report{'s' if book.running > 1 else ''}"
    return f"{count}: of client{'s' if len(late) > 1 else ''} {names}" if late else PAUSE
