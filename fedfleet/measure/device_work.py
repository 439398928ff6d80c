"""Where work went: what tasks and probes really cost, stage by stage, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedfleet.core.events import Event, Probed, TasksSpent
from fedfleet.core.records import FATES
from fedfleet.core.stages import STAGES
from fedfleet.measure.tasks import BYTES, Spending, TaskColumns, Tasks


def spending(log: Iterable[Event], tasks: int) -> Spending:
    """What the tasks of a run cost, as far as the journal says."""
    columns = TaskColumns()
    columns.add_rows(tasks)
    for event in log:
        if isinstance(event, TasksSpent):
            columns.spend(event)
    return columns.spending()


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
