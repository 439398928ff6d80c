"""What went over the network, and what was done for nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedfleet.core.records import FOLDED
from fedfleet.measure.tasks import RUNNING, Tasks


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes in both directions, waste included; per second of virtual time."""

    bytes_down: float
    bytes_up: float
    bytes_per_second: float


def traffic(tasks: Tasks, virtual_seconds: float) -> Traffic:
    """Every task that was sent costs its download; every report that arrived its upload."""
    down, up = float(tasks.bytes_down.sum()), float(tasks.bytes_up.sum())
    return Traffic(down, up, (down + up) / virtual_seconds if virtual_seconds > 0 else 0.0)


@dataclass(frozen=True, slots=True)
class Waste:
    """Work that entered no model: tasks, device seconds, and its share of all device seconds."""

    tasks: int
    seconds: float
    share: float


def wasted_work(tasks: Tasks) -> Waste:
    """Dropped, lost, refused and arrived-for-nothing."""
    over = tasks.fate != RUNNING
    wasted = over & (tasks.fate != FOLDED)
    seconds = np.nan_to_num(tasks.seconds)
    total = float(seconds[over].sum())
    lost = float(seconds[wasted].sum())
    return Waste(int(wasted.sum()), lost, lost / total if total else 0.0)
