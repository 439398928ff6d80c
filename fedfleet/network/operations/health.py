"""Whether a server lives, and whether it can take devices: pure rules, and the board from which they are read."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from fedfleet.network.operations.metrics import Figures

STUCK_SECONDS = 5.0  # a loop that has not turned for so long is stuck


@dataclass(slots=True)
class HealthBoard:
    """What the processor last said of itself. It writes whole values, another thread reads them."""

    figures: Figures
    turned_at: float = field(default_factory=time.monotonic)  # when the loop last turned
    listening: bool = False


def mark_turn(board: HealthBoard, figures: Figures | None = None) -> None:
    """The loop turned; with new figures, if it has some. To be called at least once a second."""
    if figures is not None:
        board.figures = figures
    board.turned_at = time.monotonic()


def dead_reason(board: HealthBoard, now: float) -> str:
    """Why the process should be killed and started again; empty: it lives."""
    return "the loop has not turned for some seconds" if now - board.turned_at > STUCK_SECONDS else ""


def unready_reason(board: HealthBoard, now: float, *, writable: bool) -> str:
    """Why no device should be sent here; empty: it is ready."""
    figures = board.figures
    if dead := dead_reason(board, now):
        return dead
    if figures.draining:
        return "it is stopping"
    if not board.listening:
        return "it does not listen yet"
    if figures.transmitters_up < figures.transmitters:
        return f"{figures.transmitters_up} of {figures.transmitters} transmitters are up"
    return "" if writable else "its folder cannot be written"


def disk_check(folder: Path, *, every: float = 2.0) -> Callable[[], bool]:
    """A function that says whether a folder can be written, by writing; asked more often than `every` seconds, it remembers."""
    last: tuple[float, bool] | None = None

    def writable() -> bool:
        nonlocal last
        now = time.monotonic()
        if last is None or now - last[0] >= every:
            last = now, _can_write(folder / ".writable")
        return last[1]

    return writable


def _can_write(path: Path) -> bool:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            wrote = os.write(handle, bytes(4096)) == 4096
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError:
        wrote = False
    with suppress(OSError):
        path.unlink(missing_ok=True)
    return wrote
