"""Where work went: what tasks and probes really cost, stage by stage, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedfleet.core.events import Event, Probed, TasksSpent
from fedfleet.core.records import FATES, Bools, Floats
from fedfleet.core.stages import STAGES
from fedfleet.measure.tasks import Tasks

BYTES = ("bytes_down", "bytes_up")
AGAIN = "again"  # a report that had come before: its bytes are on nobody's account


@dataclass(frozen=True, slots=True)
class Spending:
    """What each task cost, in the order of ids: columns by name, as in TasksSpent; NaN: nobody knows, or not yet."""

    accounted: Bools
    columns: Mapping[str, Floats]

    def column(self, name: str) -> Floats:
        """One column: 0 for tasks that had none of it, NaN for those of which it is not known."""
        result = self.columns.get(name)
        return np.where(self.accounted, 0.0, np.nan) if result is None else result

    def worked_seconds(self) -> Floats:
        """Seconds in which each task was worked on: all of its stages."""
        result = np.where(self.accounted, 0.0, np.nan)
        for stage in STAGES:
            result = result + self.column(stage)
        return result


def spending(log: Iterable[Event], tasks: int) -> Spending:
    """What the tasks of a run cost, as far as the journal has been told."""
    accounted, columns = np.zeros(tasks, np.bool_), dict[str, Floats]()
    events = [e for e in log if isinstance(e, TasksSpent)]
    for event in events:
        accounted[event.tasks] = True
    for event in events:
        for name, values in event.spent.items():
            if name not in columns:
                columns[name] = np.where(accounted, 0.0, np.nan)
            columns[name][event.tasks] = values
    return Spending(accounted, columns)


def by_fate(tasks: Tasks, spent: Spending) -> dict[str, dict[str, Any]]:
    """What became of the tasks that ended, and what each fate cost: how many, seconds worked on them and seconds that they waited
    (out of reach, most of them), the bytes that moved, joules. Unknown costs count as 0; `unknown` is the number of such tasks."""
    worked = spent.worked_seconds()
    waited = np.maximum(tasks.seconds - worked, 0.0)
    result: dict[str, dict[str, Any]] = {}
    for code, fate in enumerate(FATES):
        mask = tasks.fate == code
        sums = {"worked_seconds": worked, "waited_seconds": waited}
        sums |= {name: spent.column(name) for name in (*BYTES, "joules")}
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
class ProbeCosts:
    """What looking at clients before picking cost: how many were asked and answered, seconds of devices, bytes, joules."""

    asked: int
    answered: int
    worked_seconds: float
    bytes_down: float
    bytes_up: float
    joules: float


def probe_costs(log: Iterable[Event]) -> ProbeCosts:
    """The probes of a run, added up."""
    probes = [e for e in log if isinstance(e, Probed)]

    def total(*names: str) -> float:
        return sum((float(np.nansum(e.spent[name])) for e in probes for name in names if name in e.spent), 0.0)

    asked, answered = sum(len(e.clients) for e in probes), sum(int(np.isfinite(e.values).sum()) for e in probes)
    return ProbeCosts(asked, answered, total(*STAGES), *(total(name) for name in (*BYTES, "joules")))
