"""What a run cost in bytes, seconds and joules: its tasks, by what became of them, and its probes; and what was for nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedfleet.core.events import Probed
from fedfleet.core.records import FATES, FOLDED, LOST, Bools
from fedfleet.core.stages import STAGES
from fedfleet.measure.tasks import BYTES, RUNNING, Spending, Tasks


@dataclass(slots=True)
class ProbeTotals:
    """The probes of a run, added up: how many clients were asked and answered, and what that took.

    `columns` are sums by name, as in Probed.spent; a name that no probe had is missing.
    """

    asked: int = 0
    answered: int = 0
    worked_seconds: float = 0.0
    columns: dict[str, float] = field(default_factory=dict[str, float])

    def add(self, event: Probed) -> None:
        """Count one more."""
        self.asked += len(event.clients)
        self.answered += int(np.isfinite(event.values).sum())
        for name, values in event.spent.items():
            self.columns[name] = self.columns.get(name, 0.0) + float(np.nansum(values))
        for stage in STAGES:
            if stage in event.spent:
                self.worked_seconds += float(np.nansum(event.spent[stage]))

    def total(self, name: str) -> float:
        """The sum of a column."""
        return self.columns.get(name, 0.0)


@dataclass(frozen=True, slots=True)
class ProbeCosts:
    """What looking at clients before picking cost: how many were asked and answered, seconds of devices, bytes, joules."""

    asked: int
    answered: int
    worked_seconds: float
    bytes_down: float
    bytes_up: float
    joules: float


def probe_costs(probes: ProbeTotals) -> ProbeCosts:
    """The costs of these probes."""
    sums = (probes.total(name) for name in (*BYTES, "joules"))
    return ProbeCosts(probes.asked, probes.answered, probes.worked_seconds, *sums)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes in both directions, waste included; per second of virtual time; and how many of them were for nothing."""

    bytes_down: float
    bytes_up: float
    bytes_per_second: float
    wasted_down: float
    wasted_up: float


def traffic(tasks: Tasks, virtual_seconds: float, probes: ProbeTotals | None = None, duplicate_bytes: float = 0.0) -> Traffic:
    """What moved for tasks, as far as each came, for probes, and for reports that came once more.

    What entered no model was for nothing, and so was looking around. A report that came late is no duplicate: its bytes are those
    of its task, which was dropped.
    """
    extra_down, extra_up = (0.0, 0.0) if probes is None else (probes.total(name) for name in BYTES)
    down = float(tasks.bytes_down.sum()) + extra_down
    up = float(tasks.bytes_up.sum()) + extra_up + duplicate_bytes
    wasted = _waste_mask(tasks)
    wasted_down = float(tasks.bytes_down[wasted].sum()) + extra_down
    wasted_up = float(tasks.bytes_up[wasted].sum()) + extra_up + duplicate_bytes
    return Traffic(down, up, (down + up) / virtual_seconds if virtual_seconds > 0 else 0.0, wasted_down, wasted_up)


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


def by_fate(tasks: Tasks, spent: Spending) -> dict[str, dict[str, Any]]:
    """What became of the tasks that ended, and what each fate cost: how many, seconds worked on them and seconds that they waited
    (out of reach, most of them), the bytes that moved, joules. Unknown costs count as 0; `unknown` is the number of such tasks."""
    worked = spent.worked_seconds()
    waited = np.maximum(tasks.seconds - worked, 0.0)
    sums = {"worked_seconds": worked, "waited_seconds": waited}
    sums |= {name: spent.column(name) for name in (*BYTES, "joules")}
    result: dict[str, dict[str, Any]] = {}
    for code, fate in enumerate(FATES):
        mask = tasks.fate == code
        result[fate] = {
            "tasks": int(mask.sum()),
            "unknown": int(np.isnan(worked[mask]).sum()),
            **{name: float(np.nansum(values[mask])) for name, values in sums.items()},
        }
    return result


def stage_seconds(spent: Spending) -> dict[str, float]:
    """Seconds of all tasks, by what they went into."""
    return {stage: float(np.nansum(spent.column(stage))) for stage in STAGES}


@dataclass(frozen=True, slots=True)
class Energy:
    """Joules of all devices: useful + wasted + probes = joules. `grams` of CO2, None if the grid is not known.

    Useful is what went into reports that were folded, wasted all other work that ended, probes what looking at clients took.
    """

    joules: float
    useful: float
    wasted: float
    probes: float
    grams: float | None


def energy(tasks: Tasks, spent: Spending, probes: ProbeTotals, grams: float) -> Energy | None:
    """The energy of a run, in which `grams` were counted; None if nobody counted joules."""
    known = {*spent.columns, *probes.columns}
    if "joules" not in known:
        return None
    joules, useful = np.nan_to_num(spent.column("joules")), tasks.fate == FOLDED
    sums = float(joules[useful].sum()), float(joules[~useful].sum()), probes.total("joules")
    return Energy(sum(sums), *sums, grams if "grams" in known else None)
