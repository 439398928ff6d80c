"""What became of every task: the table from which traffic, waste and participation follow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedfleet.core.events import (
    Event,
    ModelCommitted,
    ReportRejected,
    ReportsGathered,
    RoundFailed,
    TaskArrived,
    TaskLost,
    TasksDropped,
    TasksSent,
)
from fedfleet.core.records import DROPPED, FOLDED, LOST, REJECTED, WASTED, Floats, Ints

RUNNING = -1  # a journal read while it is written has tasks that have not ended


@dataclass(frozen=True, slots=True)
class Tasks:
    """One entry per task, in the order of ids. `fate` holds the codes of FATES, or RUNNING; `ended` is absolute time."""

    clients: Ints
    rounds: Ints
    versions: Ints
    sent: Floats
    ended: Floats
    seconds: Floats
    samples: Floats
    bytes_down: Floats
    bytes_up: Floats
    fate: NDArray[np.int8]
    folded_into: Ints  # the version that a folded report became part of, 0 otherwise


def task_table(log: Iterable[Event]) -> Tasks:
    """Follow each task from being sent to its end."""
    waves: list[TasksSent] = []
    ends: dict[int, tuple[int, float, float, float]] = {}
    into: dict[int, int] = {}
    arrived: set[int] = set()
    gathered: list[int] = []
    for event in log:
        match event:
            case TasksSent():
                waves.append(event)
            case TaskArrived():
                ends[event.task] = (FOLDED, event.time, event.seconds, event.bytes_up)
                arrived.add(event.task)
            case TaskLost():
                ends[event.task] = (LOST, event.time, event.seconds, 0.0)
            case TasksDropped():
                for task, seconds in zip(event.tasks.tolist(), event.seconds.tolist(), strict=True):
                    ends[task] = (DROPPED, event.time, seconds, 0.0)
            case ReportsGathered():
                gathered = event.tasks.tolist()
                arrived.difference_update(gathered)
            case ReportRejected():
                ends[event.task] = (REJECTED, *ends[event.task][1:])
                arrived.discard(event.task)
            case ModelCommitted():
                into |= dict.fromkeys(gathered, event.version)
            case RoundFailed():
                for task in arrived:
                    ends[task] = (WASTED, *ends[task][1:])
                arrived.clear()
            case _:
                pass
    for task in arrived:  # the run ended before these could be folded
        ends[task] = (WASTED, *ends[task][1:])
    return _columns(waves, ends, into)


def _columns(waves: list[TasksSent], ends: dict[int, tuple[int, float, float, float]], into: dict[int, int]) -> Tasks:
    n = sum(len(w.clients) for w in waves)
    still = (RUNNING, np.nan, np.nan, 0.0)
    rows = [ends.get(task, still) for task in range(n)]
    found = np.array(rows, np.float64).reshape(-1, 4)

    def joined(name: str) -> Floats:
        parts = [getattr(w, name) for w in waves]
        return np.concatenate(parts) if parts else np.zeros(0)

    def repeated(name: str) -> Floats:
        return np.repeat([float(getattr(w, name)) for w in waves], [len(w.clients) for w in waves])

    return Tasks(
        joined("clients").astype(np.int64), repeated("round").astype(np.int64), repeated("version").astype(np.int64),
        repeated("time"), found[:, 1], found[:, 2], joined("samples"), joined("bytes_down"), found[:, 3],
        found[:, 0].astype(np.int8), np.array([into.get(t, 0) for t in range(n)], np.int64),
    )  # fmt: skip
