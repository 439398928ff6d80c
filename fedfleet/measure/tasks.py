"""What became of every task: columns that events fill, and the table from which traffic, waste and participation follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedfleet.core import events
from fedfleet.core.events import Event
from fedfleet.core.records import DROPPED, FOLDED, LOST, REJECTED, WASTED, Bools, Floats, Ints
from fedfleet.core.stages import STAGES

# A journal read while it is written has tasks that have not ended, and reports that wait for their model.
RUNNING, ARRIVED = -1, -2
BYTES = ("bytes_down", "bytes_up")
# What a row of each column holds until an event says otherwise; 0 for the others.
_EMPTY = {"ended": np.nan, "seconds": np.nan, "fate": RUNNING}
_DTYPES: dict[str, Any] = {
    "clients": np.int64, "rounds": np.int64, "versions": np.int64, "folded_into": np.int64,
    "fate": np.int8, "late": np.bool_, "again": np.bool_,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tasks:
    """One entry per task, in the order of ids. `fate` holds the codes of FATES, or RUNNING; `ended` is absolute time.

    A task that was lost without a word is LOST from that moment on, although the server knew nothing of it and gave it up later. Of
    those that were dropped, `late` marks whose report came all the same; `again` marks tasks whose report came twice. Bytes are
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


@dataclass(frozen=True, slots=True)
class Spending:
    """What each task cost, in the order of ids: columns by name, as in TasksSpent; NaN: unknown, or not known yet."""

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


@dataclass(slots=True)
class TaskColumns:
    """All tasks so far, as columns with room to grow; `on` takes the next event.

    `accounted` marks tasks whose costs are known, `staged` those of them whose seconds are told by stage, and `spent` holds these
    costs by name; `reasons` says why tasks were lost or refused. `broadcasts` are the first tasks of each time that clients were
    asked. `arrived` are the reports that wait for a model, `gathered` those of the model that is being made.
    """

    count: int = 0
    columns: Tasks = field(default_factory=lambda: _room(0))
    accounted: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    staged: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    broadcasts: list[int] = field(default_factory=list[int])
    spent: dict[str, Floats] = field(default_factory=dict[str, Floats])
    reasons: dict[int, str] = field(default_factory=dict[int, str])
    arrived: set[int] = field(default_factory=set[int])
    lost_silently: set[int] = field(default_factory=set[int])
    gathered: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def on(self, event: Event) -> None:
        """Take the next event. A journal that was cut may name tasks that it does not hold: they are passed over."""
        match event:
            case events.TaskArrived() if event.task < self.count:
                self._end(event, ARRIVED)
                self.columns.bytes_up[event.task] = event.bytes_up
                self.arrived.add(event.task)
            case events.TasksSent():
                rows, columns = self._add_rows(len(event.clients)), self.columns
                if len(event.clients):
                    self.broadcasts.append(rows.start)
                columns.clients[rows], columns.samples[rows], columns.bytes_down[rows] = (
                    event.clients,
                    event.samples,
                    event.bytes_down,
                )
                columns.rounds[rows], columns.versions[rows], columns.sent[rows] = event.round, event.version, event.time
            case events.TaskLost() | events.TaskStruck() if event.task < self.count:
                self._end(event, LOST)
                self.reasons[event.task] = event.reason
                if isinstance(event, events.TaskStruck):
                    self.lost_silently.add(event.task)
            case events.TasksDropped():
                dropped, columns = event.tasks < self.count, self.columns
                if self.lost_silently:
                    dropped &= ~np.isin(event.tasks, list(self.lost_silently))
                tasks = event.tasks[dropped]
                columns.fate[tasks], columns.ended[tasks], columns.seconds[tasks] = DROPPED, event.time, event.seconds[dropped]
            case events.ReportUnwanted() if event.task < self.count:
                (self.columns.late if event.reason == "late" else self.columns.again)[event.task] = True
            case events.TasksSpent():
                self._spend(event)
            case events.ReportsGathered():
                self.gathered = self.known(event.tasks)
                self.arrived.difference_update(self.gathered.tolist())
                self.columns.fate[self.gathered] = FOLDED
            case events.ReportRejected() if event.task < self.count:
                self.arrived.discard(event.task)
                self.columns.fate[event.task] = REJECTED
                self.reasons[event.task] = event.reason
            case events.ModelCommitted():
                self.columns.folded_into[self.gathered] = event.version
            case events.RoundFailed():
                # What has arrived by now will not be folded.
                self.columns.fate[list(self.arrived)] = WASTED
                self.arrived.clear()
            case _:
                pass

    def table(self) -> Tasks:
        """The tasks so far, as a copy. The journal ends here: what has arrived and was not gathered is wasted."""
        columns: dict[str, Any] = {f.name: getattr(self.columns, f.name)[: self.count].copy() for f in fields(Tasks)}
        columns["fate"][columns["fate"] == ARRIVED] = WASTED
        return Tasks(**columns)

    def spending(self) -> Spending:
        """What the tasks cost, as far as the journal says, as a copy."""
        columns = {name: values[: self.count].copy() for name, values in self.spent.items()}
        return Spending(self.accounted[: self.count].copy(), columns)

    def known(self, tasks: Ints) -> Ints:
        """Those of these tasks that are here."""
        return tasks[tasks < self.count]

    def _add_rows(self, more: int) -> slice:
        """Room for more tasks; returns where they are."""
        first, self.count = self.count, self.count + more
        size = len(self.accounted)
        if self.count > size:
            room = _room(max(size, self.count - size, 64))
            grown: dict[str, Any] = {
                f.name: np.concatenate([getattr(self.columns, f.name), getattr(room, f.name)]) for f in fields(Tasks)
            }
            self.columns = Tasks(**grown)
            self.accounted = np.concatenate([self.accounted, room.late])
            self.staged = np.concatenate([self.staged, room.late])
            self.spent = {name: np.concatenate([column, room.ended]) for name, column in self.spent.items()}
        return slice(first, self.count)

    def _spend(self, event: events.TasksSpent) -> None:
        """What tasks really cost. Bytes that nobody knows stay as they were foreseen, or as they arrived."""
        known = event.tasks < self.count
        tasks = event.tasks[known]
        self.accounted[tasks] = True
        self.staged[tasks] = any(stage in event.spent for stage in STAGES)
        for name in event.spent:
            if name not in self.spent:
                self.spent[name] = np.where(self.accounted, 0.0, np.nan)
        for name, column in self.spent.items():
            column[tasks] = event.spent[name][known] if name in event.spent else 0.0
        for name in BYTES:
            moved, column = event.spent.get(name, np.zeros(len(known)))[known], getattr(self.columns, name)
            column[tasks] = np.where(np.isnan(moved), column[tasks], moved)

    def _end(self, event: events.TaskArrived | events.TaskLost | events.TaskStruck, fate: int) -> None:
        columns, task = self.columns, event.task
        columns.fate[task], columns.ended[task], columns.seconds[task] = fate, event.time, event.seconds


def _room(rows: int) -> Tasks:
    """Columns of tasks of which nothing is known yet."""
    columns: dict[str, Any] = {f.name: np.full(rows, _EMPTY.get(f.name, 0), _DTYPES.get(f.name, np.float64)) for f in fields(Tasks)}
    return Tasks(**columns)


def task_table(log: Iterable[Event]) -> Tasks:
    """Follow each task from being sent to its end."""
    columns = TaskColumns()
    for event in log:
        columns.on(event)
    return columns.table()
