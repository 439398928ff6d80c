"""The record of a run: its progress and what became of every task, followed event by event or read from a whole journal.

Events are folded here and nowhere else: rounds and evaluations in `run_progress`, tasks and their costs in `tasks`. Reports, the
dashboard, the tables of a result and all measures read this record, live or at the end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from fedfleet.core.events import (
    CandidatesSeen,
    Event,
    ReportRejected,
    RoundFailed,
    TaskLost,
    TasksDropped,
    TaskStruck,
)
from fedfleet.core.records import DROPPED
from fedfleet.measure.run_progress import Progress
from fedfleet.measure.tasks import TaskColumns

# The latest faults that are kept with their reasons.
_FAULTS = 60


@dataclass(frozen=True, slots=True)
class Fault:
    """What went wrong in a round: a task was `late`, `lost` or `refused`, or the round `failed` (then `client` is None)."""

    round: int
    client: int | None
    kind: str
    reason: str = ""


@dataclass(slots=True)
class RunRecord:
    """A run so far: `progress` by rounds and evaluations, `tasks` one by one, the latest `faults`, and how many clients could be
    asked when the server last looked (`online`)."""

    progress: Progress = field(default_factory=Progress)
    tasks: TaskColumns = field(default_factory=TaskColumns)
    faults: deque[Fault] = field(default_factory=lambda: deque[Fault](maxlen=_FAULTS))
    online: int | None = None

    def on(self, event: Event) -> None:
        """Take the next event."""
        self.progress.on(event)
        self.tasks.on(event)
        match event:
            case TaskLost() | TaskStruck():
                self._add_fault(event.task, "lost", event.reason)
            case TasksDropped():
                tasks = self.tasks.known(event.tasks)
                for task in tasks[self.tasks.columns.fate[tasks] == DROPPED][-_FAULTS:].tolist():
                    self._add_fault(task, "late")
            case ReportRejected():
                self._add_fault(event.task, "refused", event.reason)
            case RoundFailed():
                self.faults.append(Fault(event.round, None, "failed", event.reason))
            case CandidatesSeen():
                self.online = len(event.roster.clients)
            case _:
                pass

    def _add_fault(self, task: int, kind: str, reason: str = "") -> None:
        if task < self.tasks.count:
            columns = self.tasks.columns
            self.faults.append(Fault(int(columns.rounds[task]), int(columns.clients[task]), kind, reason))


def read_record(events: Iterable[Event]) -> RunRecord:
    """The record of these events."""
    record = RunRecord()
    for event in events:
        record.on(event)
    return record
