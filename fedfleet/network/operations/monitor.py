"""Everything that people see of a server while it serves: figures, the line on the terminal, the endpoints, the log."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from fedfleet.core.errors import printable
from fedfleet.core.events import Event, ModelCommitted, ReportRejected, RoundFailed, RunEnded, TaskLost
from fedfleet.engine.state import Phase
from fedfleet.measure.run_progress import Progress
from fedfleet.network.operations.http_endpoints import Endpoints, HealthBoard, mark_turn, pages_of
from fedfleet.network.operations.logs import RunLog
from fedfleet.network.operations.metrics import (
    EVALUATING,
    MAKING,
    PAUSE,
    Figures,
    activity_text,
    exposition,
    figures_of,
    status_json,
    sum_totals,
)
from fedfleet.network.operations.process_memory import ProcessMemory, memory_of_all
from fedfleet.network.security.secrets import status_token
from fedfleet.network.server.options import ServeOptions
from fedfleet.network.server.served_plan import ServedRun

QUIET_SECONDS = 60.0  # without a terminal: at least so long between lines that say nothing new


def line_of(figures: Figures) -> str:
    """The line: devices, round, reports, model, accuracy, time, and what the server is doing.

    >>> line_of(Figures("demo", 4, 3, 5, 5, arrived=2, running=1, waiting_for="client 7", accuracy=0.91, run_seconds=75.0))
    '5 of 5 devices | round 4 | 2 of 3 reports | model 3, accuracy 0.910 | 1 min 15 s | waiting for client 7'
    """
    f, tasks = figures, figures.running + figures.arrived
    # More than were declared are no share of them.
    devices = f"{f.devices_online} of {f.declared} devices" if f.devices_online <= f.declared else f"{f.devices_online} devices"
    parts = [devices]
    parts.append(f"round {f.round}")
    if tasks or f.lost:
        parts.append(f"{f.arrived} of {tasks} reports" + (f", {f.lost} lost" if f.lost else ""))
    if f.version or f.accuracy is not None:
        parts.append(f"model {f.version}" + ("" if f.accuracy is None else f", {f.score} {f.accuracy:.3f}"))
    if f.failed_rounds:
        parts.append(f"{f.failed_rounds} failed")
    parts.append(duration_text(f.run_seconds))
    if f.waiting_for:
        parts.append(printable(f.waiting_for if f.draining else activity_text(f.waiting_for), 120))
    return " | ".join(parts)


def duration_text(seconds: float) -> str:
    """Seconds for people.

    >>> duration_text(59.9), duration_text(3700), duration_text(200000)
    ('59 s', '1 h 1 min', '2 d 7 h')
    """
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


class LiveLine:
    """Shows figures as they change; to be called about twice a second, and closed at the end."""

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self._stream = stream or sys.stderr
        self._last_mark, self._last_time, self._live = "", float("-inf"), None
        if not quiet and self._stream.isatty():
            self._live = _start_live(self._stream)
        self._quiet = quiet

    def show(self, figures: Figures, now: float) -> None:
        """The newest figures."""
        if self._quiet:
            return
        if self._live is not None:
            from rich.text import Text

            self._live.update(Text(line_of(figures), no_wrap=True, overflow="ellipsis"))
            return
        # What is worth a line of its own: another round or model, another number of devices while it waits for them.
        waiting_for = figures.waiting_for if not figures.running else ""
        mark = f"{figures.round} {figures.version} {figures.failed_rounds} {figures.accuracy} {waiting_for} {figures.draining}"
        if (mark != self._last_mark and now - self._last_time >= 1.0) or now - self._last_time >= QUIET_SECONDS:
            self._last_mark, self._last_time = mark, now
            self._stream.write(f"fedfleet: {line_of(figures)}\n")
            self._stream.flush()

    def close(self) -> None:
        """Take the line away."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        self._quiet = True


def _start_live(stream: TextIO) -> Any:
    from rich.console import Console
    from rich.live import Live

    # While it stands, what others write to standard error goes above it.
    live = Live("", console=Console(file=stream), refresh_per_second=4, transient=True)
    live.start()
    return live


if TYPE_CHECKING:
    from fedfleet.network.server.server_loop import ServerLoop

FIGURES_EVERY = 0.5  # seconds between figures
STATUS_FILE = "now.json"  # in the folder `wire`, while the server runs: how it stands, for programs that watch the folder
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
        self.board = HealthBoard(figures_of(self.progress, served.name, run_seconds=0.0, transmitters=max(1, options.transmitters)))
        if options.metrics:
            exposition(self.board.figures)  # else a missing library would be found out by the first who asks
        self.endpoints = (
            Endpoints(options.metrics, pages_of(self.board, wire), status_token(served.key)) if options.metrics else None
        )
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
            max_samples=server.offers.limits.cap,
            clipped=server.admission.clipped,
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
    return f"{count} of client{'s' if len(late) > 1 else ''} {names}" if late else PAUSE
