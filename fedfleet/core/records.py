"""The records that travel between parts. A million clients are columns; one cohort is columns too."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedfleet.core.limits import Count, Horizon, NonNegative, Positive, Share, TargetText
from fedfleet.core.trees import Array, Tree

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Keys = NDArray[np.uint64]
Settings = Mapping[str, float]  # one client's own settings of a task, chosen by the selector
Slots = Mapping[str, Tree]  # a client's memory by named slots, each a tree


@dataclass(frozen=True, slots=True)
class Roster:
    """Clients that could be asked now, by ascending index: index, 64-bit key and number of training samples, column by column.

    `stats` holds the columns that the selector `sees`, and what a probe brought, NaN for those that were not probed.
    """

    clients: Ints
    keys: Keys
    samples: Ints
    stats: Mapping[str, Floats] = field(default_factory=dict[str, Floats])

    def only(self, at: Ints | Bools) -> Roster:
        """The candidates at these places."""
        stats = {name: column[at] for name, column in self.stats.items()}
        return Roster(self.clients[at], self.keys[at], self.samples[at], stats)


@dataclass(frozen=True, slots=True)
class Assignments:
    """Who is asked, and for how much: `steps` local steps (0: what the algorithm says) on `share` of the shard.

    `settings` are named columns, one entry per client, for the algorithm to read (a learning rate, a portion of the model); `due`
    says how many seconds after sending the reports are due, where the selector has an opinion on that.
    """

    clients: Ints
    steps: Ints
    share: Floats
    settings: Mapping[str, Floats] = field(default_factory=dict[str, Floats])
    due: float | None = None

    @property
    def usual(self) -> bool:
        """Whether every client does what the algorithm asks for, with no settings or due time of its own."""
        return self.due is None and not self.settings and not self.steps.any() and bool((self.share == 1.0).all())

    def only(self, at: Ints) -> Assignments:
        """The assignments at these places."""
        settings = {name: column[at] for name, column in self.settings.items()}
        return Assignments(self.clients[at], self.steps[at], self.share[at], settings, self.due)


def whole_work(clients: Ints) -> Assignments:
    """The usual assignment: everything the algorithm asks for."""
    n = len(clients)
    return Assignments(clients, np.zeros(n, np.int64), np.ones(n))


@dataclass(frozen=True, slots=True)
class Cost:
    """What tasks cost before anyone trained: samples processed, bytes down, bytes up; one entry per task.

    Who trains only a part of the model is charged as many samples of the whole model as its work comes to.
    """

    samples: Floats
    bytes_down: Floats
    bytes_up: Floats
    batches: Floats | None = None  # training batches; None: not counted, so that batches cost nothing of their own


@dataclass(frozen=True, slots=True)
class ServerState:
    """What the server has learnt: the model, and what the server's rule remembers beside it."""

    params: Tree
    extra: Tree = field(default_factory=dict[str, Array])


@dataclass(frozen=True, slots=True)
class Wave:
    """Tasks that were sent together: ids first, first + 1, .. in the order of `assignments`."""

    first: int
    round: int
    version: int
    time: float
    assignments: Assignments
    keys: Keys
    cost: Cost
    server: ServerState

    def __len__(self) -> int:
        return len(self.assignments.clients)


class WaveTasks(NamedTuple):
    """Tasks of one wave that stand together in a list: from place `start` to `stop`. `slots` are their places in the wave."""

    wave: Wave
    start: int
    stop: int
    slots: Ints


def by_wave(tasks: Sequence[int], waves: Sequence[Wave]) -> list[WaveTasks]:
    """Tasks by the waves that they were sent in, for tasks in the order of their ids."""
    result: list[WaveTasks] = []
    start, count, ids = 0, len(tasks), np.array(tasks, np.int64)
    while start < count:
        wave, stop = waves[start], start + 1
        if stop < count and waves[stop] is wave:
            stop = bisect_left(tasks, wave.first + len(wave), stop)
        result.append(WaveTasks(wave, start, stop, ids[start:stop] - wave.first))
        start = stop
    return result


def clients_of_tasks(tasks: Sequence[int], waves: Sequence[Wave]) -> Ints:
    """The client of each of these tasks, which stand in the order of their ids."""
    clients = [group.wave.assignments.clients[group.slots] for group in by_wave(tasks, waves)]
    return np.concatenate(clients) if clients else np.zeros(0, np.int64)


_NO_SETTINGS: Settings = {}


class Context(NamedTuple):
    """What a fold may know about a report beside the report itself; `settings` are those of its assignment.

    `start` is the model that a stale report's task was sent with, for `accept`; None: the present one. A named tuple: one is made
    for every report.
    """

    staleness: int
    seconds: float
    client: int
    settings: Settings = _NO_SETTINGS
    task: int = -1
    start: Tree | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """One client's answer. `update` is a delta from what was offered; `memory` replaces the slots that it names, and only if the
    report is folded.

    `bytes_up` and `seconds`, where they are known only after the work, replace what was foreseen. `forwarded` is the exact
    sum of an edge's own reports, of which `update` is the mean: it is merged, so that layers of edges change no bit. `parts`, from
    `accept`, is the share of its weight that leaves or elements get: 0 where the client trained nothing. `spent` says what
    `seconds` went into (stages of core.stages, and joules), where the worker knows better than the world.
    """

    task: int
    client: int
    update: Tree
    weight: float
    stats: Mapping[str, float]
    memory: Slots | None = None
    bytes_up: float | None = None
    seconds: float | None = None
    forwarded: Any = None
    parts: Mapping[str, Any] | None = None
    spent: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Rejection:
    """A report that arrived and cannot be used, with the reason."""

    task: int
    client: int
    reason: str


@dataclass(frozen=True, slots=True)
class ClientScores:
    """How a model does on each client's own test shard, in integers."""

    clients: Ints
    correct: Ints
    total: Ints


class Tally(NamedTuple):
    """How many of a number of samples a model got right."""

    correct: int
    total: int


@dataclass(frozen=True, slots=True)
class Score:
    """How a model does on one set of samples: a ratio of integers, and the loss as a diagnostic.

    What the ratio means depends on the kind of task (core.kinds). `measures` are others by name, rounded to nine decimal digits, so
    that a journal holds exactly what decided.
    """

    correct: int
    total: int
    loss: float
    measures: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class EvalScore:
    """How a model did when it was tried: on the central test set, and on people held out from training if there are any."""

    score: Score
    unseen: Tally | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """Tasks that ended since a selector last learnt, as columns; `fate` holds the codes of `FATES`.

    `seconds` is NaN for a task that its device cannot do at all: it took no time, and would never have ended.
    """

    tasks: Ints
    clients: Ints
    seconds: Floats
    fate: NDArray[np.int8]
    stats: Mapping[str, Floats]


# What became of a task: its report was folded, was refused, arrived for nothing, never came, or was no longer wanted.
FATES = ("folded", "rejected", "wasted", "lost", "dropped")
FOLDED, REJECTED, WASTED, LOST, DROPPED = range(5)


class Book(NamedTuple):
    """What a pacing policy may know: the present round in numbers, and what the policy chose to remember.

    `wanted`, `selected`, `lost` and `asks` (how many asks were answered) count this round; `arrived` counts reports not yet
    folded and `running` all tasks out, of which `own_arrived` and `own_running` were sent in this round. `sent_at` is the
    last broadcast, `first_sent_at` the first of this round (infinite before there was one); `due` is when the reports of
    this round are due, where the selector said so. `asking`: candidates were asked for and not yet seen; asking again
    tops `wanted` up, and a round that closes leaves the ask to the next. `answered`: this very consultation replies to
    candidates, so a policy must not ask again before time has passed. `kept` is the policy's memory.
    """

    now: float = 0.0
    round: int = 0
    version: int = 0
    opened_at: float = 0.0
    sent_at: float = 0.0
    wanted: int = 0
    selected: int = 0
    arrived: int = 0
    lost: int = 0
    running: int = 0
    asking: bool = False
    answered: bool = False
    asks: int = 0
    first_sent_at: float = math.inf
    own_arrived: int = 0
    own_running: int = 0
    due: float | None = None
    kept: tuple[float, ...] = ()


class Decision(NamedTuple):
    """What a policy wants now. `commit` folds what has arrived; `abandon` ends the round without a new model, and why.

    `wake_at` is restated with every decision: None wants no wake-up. `others`: nobody who was asked in this round is asked
    again. `drop` gives up the running tasks whose model is at least that many versions old (0: all of them; to allow a
    staleness of s, say s + 1), `drop_before` those that were sent before this time; both happen before this decision commits.
    `keep` replaces the policy's memory; None leaves it as it is. A policy must not ask twice in one instant: when candidates
    were just `answered`, or what it sent was lost at once, it should wake later. `at_least` belongs to `ask`: the answer waits
    until that many can be reached at once; an ask that grows waits for the most that any of its parts wants.
    """

    ask: int = 0
    wake_at: float | None = None
    drop: int | None = None
    commit: bool = False
    abandon: str = ""
    others: bool = False
    drop_before: float | None = None
    keep: tuple[float, ...] | None = None
    at_least: int = 0


NOTHING = Decision()


@dataclass(frozen=True, slots=True)
class Stop:
    """When a run ends: whichever comes first. `virtual_seconds` is the horizon, and always there.

    `target` names a measure and its limit, as in "rmse <= 3.5"; `target_accuracy` is a limit for the score of the task, whatever
    its kind.
    `rounds` counts attempts, `commits` those that made a model, `updates` tasks handed out (trips). The rules about accuracy
    look at evaluations, of which there is one every `evaluate_every` commits, and beside those one every `evaluate_attempts`
    rounds, failed ones too, and one every `evaluate_seconds` of virtual time, where these are set. A model that has been tried
    already is not tried again: the curve gets its point, and `patience` counts models.
    """

    rounds: Count = 100
    virtual_seconds: Horizon = 10 * 366 * 86400.0
    commits: Count | None = None
    updates: Count | None = None
    target_accuracy: Share | None = None
    target: TargetText | None = None
    patience: Count | None = None
    min_delta: NonNegative = 0.0
    evaluate_every: Count = 1
    evaluate_attempts: Count | None = None
    evaluate_seconds: Positive | None = None
