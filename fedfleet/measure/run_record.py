"""The record of a run: its progress and what became of every task, followed event by event or read from a whole journal.

Events are folded here and nowhere else: rounds and evaluations in `run_progress`, tasks and their costs in `tasks`, what went wrong
and what belongs to no task in this module. Reports, the dashboard, the tables of a result and all measures read this record, live
or at the end; only the critical path of a round (`attribution`) goes back through the events themselves.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from fedfleet.core import events
from fedfleet.core.events import Event
from fedfleet.core.records import DROPPED, LOST
from fedfleet.measure.costs import ProbeTotals
from fedfleet.measure.failures import Failures, Troubles
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
    """A run so far: `progress` by rounds and evaluations, `tasks` one by one, the latest `faults`, why rounds failed, and how many
    clients could be asked when the server last looked (`online`).

    `refused` are the client and the reason of each report that was refused. `probes` and `duplicate_bytes` (of reports that came
    once more) are costs that belong to no task. `waits` is what a policy shows of its memory, by name: the moments at which it
    changed, and the seconds that held from then on.
    """

    progress: Progress = field(default_factory=Progress)
    tasks: TaskColumns = field(default_factory=TaskColumns)
    faults: deque[Fault] = field(default_factory=lambda: deque[Fault](maxlen=_FAULTS))
    failures: Failures = field(default_factory=Failures)
    refused: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    probes: ProbeTotals = field(default_factory=ProbeTotals)
    duplicate_bytes: float = 0.0
    waits: dict[str, list[list[float]]] = field(default_factory=dict[str, list[list[float]]])
    online: int | None = None

    def on(self, event: Event) -> None:
        """Take the next event."""
        self.progress.on(event)
        self.tasks.on(event)
        failures = self.failures
        match event:
            case events.TaskArrived():
                if failures.fastest is None or event.seconds < failures.fastest:
                    failures.fastest = event.seconds
            case events.TaskLost() | events.TaskStruck():
                failures.lose(event.reason, able=isinstance(event, events.TaskStruck) or not math.isnan(event.seconds))
                self._add_fault(event.task, "lost", event.reason)
            case events.TasksDropped():
                tasks = self.tasks.known(event.tasks)
                fates = self.tasks.columns.fate[tasks]
                # Those of which the world knows that they were lost are not late, although the server waited for them.
                failures.open.late += len(event.tasks) - int((fates == LOST).sum())
                failures.given_up = float(event.seconds.max(initial=0.0))
                for task in tasks[fates == DROPPED][-_FAULTS:].tolist():
                    self._add_fault(task, "late")
            case events.ReportRejected():
                failures.open.refused += 1
                self.refused.append((event.client, event.reason))
                self._add_fault(event.task, "refused", event.reason)
            case events.ReportUnwanted():
                if event.reason == "again":
                    self.duplicate_bytes += event.bytes_up
            case events.CandidatesSeen():
                self.online = len(event.roster.clients)
                failures.open.seen_at, failures.open.most = event.time, max(failures.open.most, self.online)
            case events.Probed():
                self.probes.add(event)
            case events.PaceSet():
                self.waits.setdefault(event.name, []).append([event.time, event.seconds])
            case events.ModelCommitted():
                failures.open = Troubles()
            case events.RoundFailed():
                failures.fail(event.time, self.online or 0)
                self.faults.append(Fault(event.round, None, "failed", event.reason))
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
