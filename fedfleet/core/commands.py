"""Commands: what the coordinator asks of a runtime. The runtime carries them out and reports facts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedfleet.core.records import Context, EvalScore, Ints, ServerState, Wave


@dataclass(frozen=True, slots=True)
class FindCandidates:
    """Say who could be asked, as soon as `at_least` clients could be; `wanted` is how many are needed. Answer: CandidatesSeen.

    Both numbers may grow until the answer comes: the state of the run says what holds.
    """

    wanted: int
    at_least: int = 0


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask these clients for one number (`loss`: of this model on their data; `seconds`: for this work). Answer: Probed."""

    clients: Ints
    stat: str
    server: ServerState
    time: float = 0.0  # when it was asked, and in which round
    round: int = 0
    within: float = math.inf  # seconds after which an answer counts no more


@dataclass(frozen=True, slots=True)
class Send:
    """Hand these tasks out. Answers: TaskArrived or TaskLost, one per task."""

    wave: Wave


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Answer TimerFired at this time; replaces the wake-up asked for before."""

    time: float


@dataclass(frozen=True, slots=True)
class Gather:
    """Fold the reports of these tasks, in this order, into the model of this version. Answer: ReportsGathered."""

    tasks: tuple[int, ...]
    waves: tuple[Wave, ...]
    contexts: Sequence[Context]
    server: ServerState
    version: int = 1


@dataclass(frozen=True, slots=True)
class Forget:
    """The reports of these tasks are not needed, and these clients stop working on them."""

    tasks: Ints
    clients: Ints


@dataclass(frozen=True, slots=True)
class Account:
    """Say what these ended tasks cost, each sent with its wave and ended after that many seconds. Answer: TasksSpent, at once."""

    tasks: tuple[int, ...]
    waves: tuple[Wave, ...]
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Evaluate:
    """Try this model on the central test set, and on all clients' test shards if `clients`. Answer: Evaluated.

    `known`: it has been tried before, and did so; then there is nothing to compute.
    """

    version: int
    server: ServerState
    clients: bool
    known: EvalScore | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """The run is over."""

    reason: str


Command = FindCandidates | Probe | Send | WakeAt | Gather | Forget | Account | Evaluate | Finish
