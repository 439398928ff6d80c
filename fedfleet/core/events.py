"""Events. Facts are reported by a runtime, outcomes are decided by the coordinator; together they are the journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

from fedfleet.core.records import ClientScores, Floats, Ints, Rejection, Roster, ServerState, Tally
from fedfleet.core.trees import ModelName


@dataclass(frozen=True, slots=True)
class CandidatesSeen:
    """Fact: these clients could be asked. The journal keeps the roster's size and hash, not the roster."""

    time: float
    roster: Roster


@dataclass(frozen=True, slots=True)
class Probed:
    """Fact: what the probed clients answered, in the order in which they were named."""

    time: float
    stat: str
    clients: Ints
    values: Floats
    spent: Mapping[str, Floats] = field(default_factory=dict[str, Floats])  # as in TasksSpent; empty: nothing


@dataclass(frozen=True, slots=True)
class TaskArrived:
    """Fact: a report came back, `seconds` after its task was sent."""

    time: float
    task: int
    client: int
    seconds: float
    bytes_up: float


@dataclass(frozen=True, slots=True, eq=False)
class TaskArrivals(Sequence[TaskArrived]):
    """Facts: reports came back one after the other, and nothing was decided in between.

    They are columns; each becomes a `TaskArrived` when somebody looks at it.
    """

    times: Sequence[float]
    tasks: Sequence[int]
    clients: Sequence[int]
    seconds: Sequence[float]
    bytes_up: Sequence[float]

    def __len__(self) -> int:
        return len(self.tasks)

    @overload
    def __getitem__(self, index: int) -> TaskArrived: ...
    @overload
    def __getitem__(self, index: slice) -> TaskArrivals: ...
    def __getitem__(self, index: int | slice) -> TaskArrived | TaskArrivals:
        i = index
        if isinstance(i, int):
            return TaskArrived(self.times[i], self.tasks[i], self.clients[i], self.seconds[i], self.bytes_up[i])
        return TaskArrivals(self.times[i], self.tasks[i], self.clients[i], self.seconds[i], self.bytes_up[i])

    def __iter__(self) -> Iterator[TaskArrived]:
        return map(TaskArrived, self.times, self.tasks, self.clients, self.seconds, self.bytes_up)


@dataclass(frozen=True, slots=True)
class TaskLost:
    """Fact: a task will never come back; `seconds` is NaN if its device could not do it at all."""

    time: float
    task: int
    client: int
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class TaskStruck:
    """Fact: a task came to grief `seconds` after it was sent; only the world knows, and the server goes on waiting."""

    time: float
    task: int
    client: int
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class ReportUnwanted:
    """Fact: a report came that the server does not await: `late`, its task had been given up, or `again`, it had come before."""

    time: float
    task: int
    client: int
    bytes_up: float
    reason: str


@dataclass(frozen=True, slots=True)
class TasksSpent:
    """Fact: what the tasks that ended in a round really cost, in the order of their ids: columns by name.

    Stages of core.stages in seconds, as far as each was carried out; bytes_down and bytes_up that moved; joules and what else the
    world's energy source says. A column that is not there is 0; NaN: unknown. What a task took beyond its stages it was out of
    reach.
    """

    time: float
    tasks: Ints
    clients: Ints
    spent: Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class TimerFired:
    """Fact: the moment that was asked for with WakeAt has come."""

    time: float


@dataclass(frozen=True, slots=True)
class NewModel:
    """A server's state after a commit, and the name of its model."""

    server: ServerState
    name: str | ModelName


@dataclass(frozen=True, slots=True)
class ReportsGathered:
    """Fact: the reports of a commit were folded into `aggregate` (None: none could be used).

    `tasks` and the columns of `stats` cover the folded reports only, in task order. `made` is what the server has learnt from it,
    from a runtime that worked it out beside its loop; without it the coordinator does.
    """

    time: float
    aggregate: Any
    tasks: Ints
    stats: Mapping[str, Floats]
    rejected: tuple[Rejection, ...] = ()
    made: NewModel | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Fact: how model `version` does on the central test set, and on the clients' own if that was asked.

    `unseen`: how it does on people whose samples are never trained on, where there are any. `measures`: what else was computed on
    the central test set, by name (Score.measures).
    """

    time: float
    version: int
    correct: int
    total: int
    loss: float
    clients: ClientScores | None = None
    unseen: Tally | None = None
    measures: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class RunBegan:
    """Outcome: the first event; what was asked, by its digest."""

    time: float
    seed: int
    clients: int
    spec_digest: str
    model_hash: str


@dataclass(frozen=True, slots=True)
class TasksSent:
    """Outcome: tasks first, first + 1, .. went out together; one journal row each. `due`: seconds after `time`."""

    time: float
    round: int
    version: int
    first: int
    clients: Ints
    steps: Ints
    share: Floats
    samples: Floats
    bytes_down: Floats
    settings: Mapping[str, Floats] = field(default_factory=dict[str, Floats])
    due: float | None = None


@dataclass(frozen=True, slots=True)
class TasksDropped:
    """Outcome: these tasks are no longer wanted; `seconds` is how long each had run."""

    time: float
    tasks: Ints
    clients: Ints
    seconds: Floats


@dataclass(frozen=True, slots=True)
class ReportRejected:
    """Outcome: a report arrived and weighs nothing, for this reason."""

    time: float
    task: int
    client: int
    reason: str


@dataclass(frozen=True, slots=True)
class PaceSet:
    """Outcome: the policy changed how long it waits; `name` is what it calls this number of seconds (Policy.shows).

    The first is at the beginning of the run, so that these are the whole timeline.
    """

    time: float
    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class RoundFailed:
    """Outcome: the round ended without a new model; it counts."""

    time: float
    round: int
    reason: str


@dataclass(frozen=True, slots=True)
class ModelCommitted:
    """Outcome: the round ended with model `version`, named by its content; `loss` is a diagnostic.

    The name of a large model is found when it is first needed; it compares and prints as the string.
    """

    time: float
    round: int
    version: int
    model_hash: str | ModelName
    folded: int
    loss: float = field(default=float("nan"), compare=False)


@dataclass(frozen=True, slots=True)
class RunEnded:
    """Outcome: the last event, and why."""

    time: float
    reason: str


def without_sums(events: Iterable[Event]) -> list[Event]:
    """The events without the sums that gatherings hold: a process that keeps a whole run in memory has no room for those."""
    return [replace(e, aggregate=None) if isinstance(e, ReportsGathered) else e for e in events]


TaskEnd = TaskArrived | TaskLost
Fact = CandidatesSeen | Probed | TaskEnd | TaskStruck | ReportUnwanted | TasksSpent | TimerFired | ReportsGathered | Evaluated
Outcome = RunBegan | TasksSent | TasksDropped | ReportRejected | PaceSet | RoundFailed | ModelCommitted | RunEnded
Event = Fact | Outcome
