"""One line on the terminal that says how a served run stands; where there is no terminal, a plain line now and then."""

from __future__ import annotations

import sys
from typing import Any, TextIO

from fedfleet.network.operations.metrics import Figures, activity_text
from fedfleet.network.security.sanitiser import printable

QUIET_SECONDS = 60.0  # without a terminal: at least so long between lines that say nothing new


def line_of(figures: Figures) -> str:
    """The line: devices, round, reports, model, accuracy, time, and what the server is doing.

    >>> line_of(Figures("demo", 4, 3, 5, 5, arrived=2, running=1, waiting_for="client 7", accuracy=0.91, run_seconds=75.0))
    '5 of 5 devices | round 4 | 2 of 3 reports | model 3, accuracy 0.910 | 1 min 15 s | waiting for client 7'
    """
    f, tasks = figures, figures.running + figures.arrived
    devices = f"{f.devices_online} of {f.declared} devices" if f.declared else f"{f.devices_online} devices"
    parts = [devices]
    parts.append(f"round {f.round}")
    if tasks or f.lost:
        parts.append(f"{f.arrived} of {tasks} reports" + (f", {f.lost} lost" if f.lost else ""))
    if f.version or f.accuracy is not None:
        parts.append(f"model {f.version}" + ("" if f.accuracy is None else f", accuracy {f.accuracy:.3f}"))
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
