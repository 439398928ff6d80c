"""What became of every task: the table from which traffic, waste and participation follow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedfleet.core.events import (
    Event,
    ModelCommitted,
    ReportRejected,
    ReportsGathered,
    ReportUnwanted,
    RoundFailed,
    TaskArrived,
    TaskLost,
    TasksDropped,
    TasksSent,
    TasksSpent,
    TaskStruck,
)
from fedfleet.core.records import DROPPED, FOLDED, LOST, REJECTED, WASTED, Bools, Floats, Ints

RUNNING = -1  # a journal read while it is written has tasks that have not ended


@dataclass(frozen=True, slots=True)
class Tasks:
    """One entry per task, in the order of ids. `fate` holds the codes of FATES, or RUNNING; `ended` is absolute time.

    A task that was lost without a word is LOST from that moment on, although the server knew nothing of it and gave it up later.
    Of those that were dropped, `late` marks whose report came all the same; `again` marks tasks whose report came twice. Bytes are
    those that really moved, as far as the journal knows; else all of what was to go down, and what arrived.
    """

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
    late: Bools
    again: Bools


@dataclass(slots=True)
class _TaskEnds:
    """What is known so far of how tasks ended: (fate, time, seconds, bytes up), and what came beside."""

    ends: dict[int, tuple[int, float, float, float]] = field(default_factory=dict[int, tuple[int, float, float, float]])
    into: dict[int, int] = field(default_factory=dict[int, int])
    arrived: set[int] = field(default_factory=set[int])  # and not folded yet
    lost_silently: set[int] = field(default_factory=set[int])
    unwanted: dict[str, list[int]] = field(default_factory=lambda: {"late": [], "again": []})
    gathered: list[int] = field(default_factory=list[int])

    def set_fate(self, task: int, fate: int) -> None:
        self.ends[task] = (fate, *self.ends[task][1:])

    def waste_arrived(self) -> None:
        """What has arrived by now will not be folded."""
        for task in self.arrived:
            self.set_fate(task, WASTED)
        self.arrived.clear()

    def record(self, event: Event) -> None:
        match event:
            case TaskArrived():
                self.ends[event.task] = (FOLDED, event.time, event.seconds, event.bytes_up)
                self.arrived.add(event.task)
            case TaskLost() | TaskStruck():
                self.ends[event.task] = (LOST, event.time, event.seconds, 0.0)
                if isinstance(event, TaskStruck):
                    self.lost_silently.add(event.task)
            case TasksDropped():
                for task, seconds in zip(event.tasks.tolist(), event.seconds.tolist(), strict=True):
                    if task not in self.lost_silently:
                        self.ends[task] = (DROPPED, event.time, seconds, 0.0)
            case ReportUnwanted():
                self.unwanted[event.reason].append(event.task)
            case ReportsGathered():
                self.gathered = event.tasks.tolist()
                self.arrived.difference_update(self.gathered)
            case ReportRejected():
                self.set_fate(event.task, REJECTED)
                self.arrived.discard(event.task)
            case ModelCommitted():
                self.into |= dict.fromkeys(self.gathered, event.version)
            case RoundFailed():
                self.waste_arrived()
            case _:
                pass


def task_table(log: Iterable[Event]) -> Tasks:
    """Follow each task from being sent to its end."""
    waves: list[TasksSent] = []
    spent: list[TasksSpent] = []
    task_ends = _TaskEnds()
    for event in log:
        if isinstance(event, TasksSent):
            waves.append(event)
        elif isinstance(event, TasksSpent):
            spent.append(event)
        else:
            task_ends.record(event)
    task_ends.waste_arrived()  # the run ended before these could be folded
    return _columns(waves, spent, task_ends)


def _columns(waves: list[TasksSent], spent: list[TasksSpent], task_ends: _TaskEnds) -> Tasks:
    n = sum(len(w.clients) for w in waves)
    running = (RUNNING, np.nan, np.nan, 0.0)
    ends = np.array([task_ends.ends.get(task, running) for task in range(n)], np.float64).reshape(-1, 4)

    def concatenate(name: str) -> Floats:
        parts = [getattr(w, name) for w in waves]
        return np.concatenate(parts) if parts else np.zeros(0)

    def repeat(name: str) -> Floats:
        return np.repeat([float(getattr(w, name)) for w in waves], [len(w.clients) for w in waves])

    def mask_of(tasks: list[int]) -> Bools:
        marks = np.zeros(n, np.bool_)
        marks[tasks] = True
        return marks

    return Tasks(
        concatenate("clients").astype(np.int64),
        repeat("round").astype(np.int64),
        repeat("version").astype(np.int64),
        repeat("time"),
        ends[:, 1],
        ends[:, 2],
        concatenate("samples"),
        _bytes_moved(spent, "bytes_down", concatenate("bytes_down")),
        _bytes_moved(spent, "bytes_up", ends[:, 3]),
        ends[:, 0].astype(np.int8),
        np.array([task_ends.into.get(t, 0) for t in range(n)], np.int64),
        mask_of(task_ends.unwanted["late"]),
        mask_of(task_ends.unwanted["again"]),
    )


def _bytes_moved(spent: list[TasksSpent], name: str, default: Floats) -> Floats:
    """The bytes that really moved for each task; what nobody knows is as it was foreseen or arrived."""
    moved = default.copy()
    for event in spent:
        values = event.spent.get(name)
        known = np.zeros(len(event.tasks)) if values is None else values
        moved[event.tasks] = np.where(np.isnan(known), default[event.tasks], known)
    return moved
