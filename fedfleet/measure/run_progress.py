"""How far a run has come: its rounds, its evaluations, and how many tasks are where, followed event by event.

It grows with rounds, not with tasks, so that a server, a progress line and a list of runs can keep one for a whole run. What became
of each single task is in `run_record`, which holds one of these.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from fedfleet.core import events
from fedfleet.core.events import Event
from fedfleet.core.records import ClientScores, Tally
from fedfleet.measure.score_info import kind_of_measures
from fedfleet.measure.tasks import BYTES

# What can become of a task, as in measure.tasks. `late` and `again` count reports that came when nothing waited for them.
FATES = ("folded", "rejected", "wasted", "lost", "dropped", "late", "again")
COMMITTED, OPEN, FAILED = 1, 0, -1


@dataclass(slots=True)
class Round:
    """One round, from the end of the one before (`opened`) to its own (`closed`).

    `asked` counts the tasks that were sent in it, in `waves`; `first` is the id of the first of them, and `due` is after how many
    seconds they are given up. `used` reports became part of its model. `reachable` is the most clients that could be asked, -1 if
    it never looked. Bytes are those that tasks were to load and that reports brought while it was open; `lost` counts tasks
    that were reported as lost while it was open. `outcome`: COMMITTED with the model `version`, FAILED for the `reason`, or OPEN.
    """

    number: int = -1
    opened: float = 0.0
    asked_at: float = math.nan
    due: float | None = None
    first: int = 0
    asked: int = 0
    waves: int = 0
    used: int = 0
    reachable: int = -1
    bytes_down: float = 0.0
    bytes_up: float = 0.0
    lost: int = 0
    closed: float = math.nan
    outcome: int = OPEN
    version: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One model on the central test set, and what the run had cost by then: rounds that had ended, joules and bytes."""

    time: float
    version: int
    correct: int
    total: int
    loss: float = math.nan
    unseen: Tally | None = None
    rounds: int = 0
    joules: float = 0.0
    bytes: float = 0.0
    measures: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def accuracy(self) -> float:
        """The score: the share of the test samples that was right, or what another kind of task has instead (core.kinds)."""
        return self.correct / self.total if self.total else 0.0

    @property
    def margin(self) -> float:
        """Half of the 95 % interval that the size of the test set leaves."""
        p = self.accuracy
        return 1.96 * math.sqrt(max(p * (1 - p), 0.0) / self.total) if self.total else 0.0


@dataclass(slots=True)
class Progress:
    """A run so far. `on` changes it in place: thousands of events a second go through it.

    `rounds` are those in which a client was asked or that have ended; `current` collects for the one that is open. `newest` is the
    evaluation of the newest model. `counts` holds tasks that are `running`, reports that have `arrived` and are not folded yet, and
    FATES; `costs` the joules, bytes and grams of CO2 of tasks whose round has ended, of probes, and of reports that came twice.
    """

    began: events.RunBegan | None = None
    time: float = 0.0
    rounds: list[Round] = field(default_factory=list[Round])
    current: Round | None = None
    evaluations: list[Evaluation] = field(default_factory=list[Evaluation])
    newest: Evaluation | None = None
    client_scores: ClientScores | None = None
    version: int = 0
    commits: int = 0
    committed_at: float | None = None
    counts: Counter[str] = field(default_factory=Counter[str])
    costs: dict[str, float] = field(default_factory=lambda: {"joules": 0.0, "bytes": 0.0, "grams": 0.0})
    ended: str | None = None

    @property
    def clients(self) -> int:
        """How many clients the run has."""
        return self.began.clients if self.began else 0

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.began.seed if self.began else 0

    @property
    def round(self) -> int:
        """The number of the round that is open, from 0."""
        return self.rounds[-1].number + (self.rounds[-1].outcome != OPEN) if self.rounds else 0

    @property
    def closed_rounds(self) -> list[Round]:
        """The rounds that have ended, in order."""
        return self.rounds[: self.closed_count]

    @property
    def closed_count(self) -> int:
        """How many rounds have ended."""
        return len(self.rounds) - (bool(self.rounds) and self.rounds[-1].outcome == OPEN)

    @property
    def failed_rounds(self) -> int:
        """How many rounds ended without a new model."""
        return self.closed_count - self.commits

    @property
    def running(self) -> int:
        """Tasks that are out."""
        return self.counts["running"]

    @property
    def arrived(self) -> int:
        """Reports that are here and not folded yet."""
        return self.counts["arrived"]

    @property
    def lost(self) -> int:
        """Tasks that will not come back, since the last round ended."""
        return self.current.lost if self.current else 0

    @property
    def fates(self) -> dict[str, int]:
        """How many tasks and reports came to which end."""
        return {fate: self.counts[fate] for fate in FATES}

    @property
    def accuracy(self) -> float | None:
        """That of the newest model that was evaluated."""
        return self.newest.accuracy if self.newest else None

    @property
    def score_name(self) -> str:
        """What the score is called, as the measures of its evaluations show."""
        return kind_of_measures(self.newest.measures if self.newest else ()).score

    @property
    def failure_reasons(self) -> dict[str, int]:
        """How many rounds failed, by reason, the most frequent first."""
        return dict(Counter(r.reason for r in self.closed_rounds if r.outcome == FAILED).most_common())

    def on(self, event: Event) -> None:
        """Take the next event."""
        self.time = max(self.time, event.time)
        current, counts = self.current, self.counts
        if current is None:
            current = self.current = Round(opened=event.time)
        match event:
            case events.TaskArrived():
                counts["running"] -= 1
                counts["arrived"] += 1
                current.bytes_up += event.bytes_up
            case events.TasksSent():
                if current.number < 0:
                    current.number, current.asked_at, current.first = event.round, event.time, event.first
                    self.rounds.append(current)
                current.asked += len(event.clients)
                current.waves += 1
                current.due = current.due if event.due is None else event.due
                current.bytes_down += float(event.bytes_down.sum())
                self.version = event.version
                counts["running"] += len(event.clients)
            case events.TaskLost():
                counts["running"] -= 1
                counts["lost"] += 1
                current.lost += 1
            case events.TasksDropped():
                counts["running"] -= len(event.tasks)
                counts["dropped"] += len(event.tasks)
            case events.ReportRejected():
                counts["arrived"] -= 1
                counts["rejected"] += 1
            case events.CandidatesSeen():
                current.reachable = max(current.reachable, len(event.roster.clients))
            case events.TasksSpent() | events.Probed():
                for cost, names in (("joules", ("joules",)), ("bytes", BYTES), ("grams", ("grams",))):
                    self.costs[cost] += sum(float(np.nansum(event.spent[name])) for name in names if name in event.spent)
            case events.ReportUnwanted():
                counts[event.reason] += 1
                if event.reason == "again":
                    self.costs["bytes"] += event.bytes_up
            case events.Evaluated():
                costs = self.costs
                done = Evaluation(
                    event.time, event.version, event.correct, event.total, event.loss, event.unseen,
                    self.closed_count, costs["joules"], costs["bytes"], event.measures,
                )  # fmt: skip
                self.evaluations.append(done)
                if event.total and event.version >= (self.newest.version if self.newest else 0):
                    self.newest = done
                if event.clients is not None and len(event.clients.total):
                    self.client_scores = event.clients
            case events.ModelCommitted():
                self.commits, self.version, self.committed_at = self.commits + 1, event.version, event.time
                counts["folded"] += event.folded
                # What came while these were folded waits for the next model.
                counts["arrived"] -= event.folded
                current.used, current.version = event.folded, event.version
                self._close(event, current, COMMITTED)
            case events.RoundFailed():
                self._waste_arrivals()
                current.reason = event.reason
                self._close(event, current, FAILED)
            case events.RunBegan():
                self.began = event
            case events.RunEnded():
                self.ended = event.reason
                self._waste_arrivals()
            case _:
                pass

    def _close(self, event: events.ModelCommitted | events.RoundFailed, current: Round, outcome: int) -> None:
        if current.number < 0:
            # No client was asked in it.
            current.asked_at = event.time
            self.rounds.append(current)
        current.number, current.closed, current.outcome = event.round, event.time, outcome
        self.current = Round(opened=event.time)

    def _waste_arrivals(self) -> None:
        """What is here will not be folded."""
        self.counts["wasted"] += self.counts["arrived"]
        self.counts["arrived"] = 0


# What measures of rounds and evaluations are made of: the events of a run, or its progress where several measures are wanted.
Log = Iterable[Event] | Progress


def read_progress(log: Log) -> Progress:
    """The progress of a run by its events; what is a progress already is returned as it is."""
    if isinstance(log, Progress):
        return log
    progress = Progress()
    for event in log:
        progress.on(event)
    return progress
