"""What tasks cost on a real network, as far as anybody knows: what devices measured, and the bytes that came."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedfleet.core.commands import Account
from fedfleet.core.events import TasksSpent

MEASURED = ("download", "compute")  # stages of whose length a device can tell


@dataclass(frozen=True, slots=True)
class ReportedCost:
    """What is known of a task's cost: the bytes of its report, and what its device measured, by stage."""

    bytes_up: float
    spent: Mapping[str, float]


_NOT_REPORTED = ReportedCost(math.nan, {})


def tasks_spent(command: Account, costs: Sequence[ReportedCost | None], now: float) -> TasksSpent:
    """What ended tasks cost, as far as it is known; who claims more seconds than passed is not believed.

    How long an upload takes only its two ends together could say, so that nobody knows of any.
    """
    n = len(command.tasks)
    spent = {name: np.full(n, np.nan) for name in (*MEASURED, "upload", "bytes_down", "bytes_up")}
    clients = np.zeros(n, np.int64)
    for i, (task, wave, seconds) in enumerate(zip(command.tasks, command.waves, command.seconds, strict=True)):
        slot, cost = task - wave.first, costs[i] or _NOT_REPORTED
        clients[i], spent["bytes_up"][i] = wave.assignments.clients[slot], cost.bytes_up
        if not math.isnan(cost.bytes_up):
            spent["bytes_down"][i] = wave.cost.bytes_down[slot]
        if all(v >= 0 for v in cost.spent.values()) and sum(cost.spent.values()) <= seconds:
            for name in MEASURED:
                spent[name][i] = cost.spent.get(name, math.nan)
    return TasksSpent(now, np.array(command.tasks, np.int64), clients, spent)
