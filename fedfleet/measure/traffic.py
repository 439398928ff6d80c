"""What went over the network, and what was done for nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fedfleet.core.events import Event, Probed, ReportUnwanted
from fedfleet.core.records import FOLDED, LOST, Bools
from fedfleet.measure.tasks import RUNNING, Tasks


@dataclass(frozen=True, slots=True)
class ExtraTraffic:
    """Bytes that belong to no task's own way: reports that came once more, and what looking at clients took."""

    again_up: float = 0.0
    probes_down: float = 0.0
    probes_up: float = 0.0


def extra_traffic(log: Iterable[Event]) -> ExtraTraffic:
    """Count them. A report that came late is none of these: its bytes are those of its task, which was dropped."""
    again, down, up = 0.0, 0.0, 0.0
    for event in log:
        if isinstance(event, ReportUnwanted) and event.reason == "again":
            again += event.bytes_up
        elif isinstance(event, Probed):
            down += float(np.nansum(event.spent.get("bytes_down", 0.0)))
            up += float(np.nansum(event.spent.get("bytes_up", 0.0)))
    return ExtraTraffic(again, down, up)


NO_EXTRA = ExtraTraffic()


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes in both directions, waste included; per second of virtual time; and how many of them were for nothing."""

    bytes_down: float
    bytes_up: float
    bytes_per_second: float
    wasted_down: float
    wasted_up: float


def traffic(tasks: Tasks, virtual_seconds: float, extra: ExtraTraffic = NO_EXTRA) -> Traffic:
    """What moved for tasks, as far as each came, and `extra`. What entered no model was for nothing, and so was looking around."""
    down, up = (
        float(tasks.bytes_down.sum()) + extra.probes_down,
        float(tasks.bytes_up.sum()) + extra.probes_up + extra.again_up,
    )
    wasted = _waste_mask(tasks)
    return Traffic(
        down,
        up,
        (down + up) / virtual_seconds if virtual_seconds > 0 else 0.0,
        float(tasks.bytes_down[wasted].sum()) + extra.probes_down,
        float(tasks.bytes_up[wasted].sum()) + extra.probes_up + extra.again_up,
    )


@dataclass(frozen=True, slots=True)
class Waste:
    """Work that entered no model: tasks, device seconds, and its share of all device seconds.

    `lost` never came, `late` came after they were given up, `duplicates` are reports that came once more.
    """

    tasks: int
    seconds: float
    share: float
    lost: int
    late: int
    duplicates: int


def wasted_work(tasks: Tasks) -> Waste:
    """Dropped, lost, refused and arrived-for-nothing."""
    ended, wasted = tasks.fate != RUNNING, _waste_mask(tasks)
    seconds = np.nan_to_num(tasks.seconds)
    total, wasted_seconds = float(seconds[ended].sum()), float(seconds[wasted].sum())
    lost, late, again = int((tasks.fate == LOST).sum()), int(tasks.late.sum()), int(tasks.again.sum())
    return Waste(int(wasted.sum()), wasted_seconds, wasted_seconds / total if total else 0.0, lost, late, again)


def _waste_mask(tasks: Tasks) -> Bools:
    return (tasks.fate != RUNNING) & (tasks.fate != FOLDED)
