"""Devices that judge a model: who was asked until when, what they answered, and what follows from it. No clock, no socket.

Devices are asked to evaluate a model on their own test samples, or for its loss on their own training samples (a probe). They
may answer in any order, more than once, too late or never: the first answer of each counts, whoever has not answered in time is
left out of the result and counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal

import numpy as np

from fedfleet.core.events import Evaluated, Probed
from fedfleet.core.records import ClientScores, Floats, Ints, Score, ServerState
from fedfleet.network.evaluation.results import Judged
from fedfleet.store.notes import devices_note

FIRST_TASK = 1 << 40  # tasks of judging have numbers from here on, which no task of training reaches
_A_SECOND = 20  # bits: so many tasks of judging can be handed out a second
_MOST = 2**53  # of samples: beyond, sums of floats would not be whole numbers


class Kind(IntEnum):
    """What devices are asked for, as in fleet.proto."""

    EVALUATE = 1
    PROBE = 2


class Fate(IntEnum):
    """What became of one device's part."""

    SILENT = 0
    ANSWERED = 1
    DECLINED = 2


class Verdict(IntEnum):
    """What is said of an answer that came."""

    TAKEN = 0
    AGAIN = 1  # it is known: nothing changes, and the device may rest
    LATE = 2
    STRAY = 3  # of somebody else, or of another task
    WRONG = 4  # its numbers cannot be


@dataclass(frozen=True, slots=True)
class Answer:
    """What one device says: right answers of so many samples, and the mean loss over them."""

    client: int
    correct: int = 0
    total: int = 0
    loss: float = math.nan


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of those who were asked; `late` of the silent ones answered when it was over."""

    answered: int
    declined: int
    silent: int
    late: int = 0


@dataclass(slots=True)
class Asked:
    """Devices that were asked, in the order in which they were named; device i has the task `first + i`.

    The columns are filled as answers come, since there may be a hundred thousand of them. `most` are the samples that each can
    have, as far as that is known.
    """

    kind: Kind
    clients: Ints
    until: float
    server: ServerState
    version: int = 0
    first: int = FIRST_TASK
    most: Ints | None = None
    fate: Ints = field(init=False)
    correct: Ints = field(init=False)
    total: Ints = field(init=False)
    loss: Floats = field(init=False)
    left: int = field(init=False)  # how many have neither answered nor declined
    late: set[int] = field(init=False, default_factory=set[int])

    def __post_init__(self) -> None:
        n = len(self.clients)
        self.fate, self.correct, self.total = (np.zeros(n, np.int64) for _ in range(3))
        self.loss, self.left = np.full(n, np.nan), n


def first_of_start(wall_seconds: float) -> int:
    """The first task of judging of a server that starts now: those of an earlier start, which this one forgot, are not among them.

    Tasks of a start never overtake the clock: a million a second are not handed out.

    >>> first_of_start(1) - first_of_start(0)
    1048576
    """
    return FIRST_TASK + (int(wall_seconds) << _A_SECOND)


def judges(task: int) -> bool:
    """Is this a task of judging, and none of training?"""
    return task >= FIRST_TASK


def holds(asked: Asked, task: int) -> bool:
    """Is this one of its tasks?"""
    return 0 <= task - asked.first < len(asked.clients)


def answer(asked: Asked, task: int, said: Answer, now: float) -> Verdict:
    """Take what a device says to its task."""
    place, found = _place(asked, task, said.client, now)
    if found is not Verdict.TAKEN:
        return found
    if wrong(asked, task, said) is not None:
        return Verdict.WRONG
    asked.correct[place], asked.total[place] = said.correct, said.total
    asked.loss[place] = said.loss if math.isfinite(said.loss) else math.nan
    return _ended(asked, place, Fate.ANSWERED)


def decline(asked: Asked, task: int, client: int, now: float) -> Verdict:
    """A device will not or cannot do its part; or the server knows that it will not come back."""
    place, found = _place(asked, task, client, now)
    return found if found is not Verdict.TAKEN else _ended(asked, place, Fate.DECLINED)


def wrong(asked: Asked, task: int, said: Answer) -> str | None:
    """Why the numbers of an answer to one of its tasks cannot be; None if they can."""
    if asked.kind is Kind.PROBE:
        return None  # a loss that is no number is an answer: this model has none there
    most = _MOST if asked.most is None else int(asked.most[task - asked.first])
    if not 1 <= said.total <= most:
        return f"it was judged on {said.total} samples, and can be on 1 to {most}"
    if not 0 <= said.correct <= said.total:
        return f"{said.correct} of {said.total} samples cannot be right"
    return None


def finished(asked: Asked, now: float) -> bool:
    """Has everybody answered or declined, or is the time over?"""
    return asked.left == 0 or now >= asked.until


def counts(asked: Asked) -> Counts:
    """How many answered, declined, and said nothing in time."""
    each = np.bincount(asked.fate, minlength=len(Fate)).tolist()
    return Counts(each[Fate.ANSWERED], each[Fate.DECLINED], each[Fate.SILENT], len(asked.late))


def scores(asked: Asked) -> ClientScores:
    """The scores of those who answered, in the order of their numbers."""
    came = np.flatnonzero(asked.fate == Fate.ANSWERED)
    came = came[np.argsort(asked.clients[came], kind="stable")]
    return ClientScores(asked.clients[came], asked.correct[came], asked.total[came])


def overall(asked: Asked) -> Score:
    """All answers as one score; the loss is the mean over all samples of those who told one."""
    told = (asked.fate == Fate.ANSWERED) & np.isfinite(asked.loss)
    weight = int(asked.total[told].sum())
    loss = float(asked.total[told] @ asked.loss[told] / weight) if weight else math.nan
    return Score(int(asked.correct.sum()), int(asked.total.sum()), loss)


def probed(asked: Asked, stat: str, now: float) -> Probed:
    """The fact that follows from a probe: NaN for whoever said nothing in time."""
    return Probed(now, stat, asked.clients, np.where(asked.fate == Fate.ANSWERED, asked.loss, np.nan))


def remark(asked: Asked) -> str:
    """One sentence about who answered, for the journal and people.

    >>> remark(Asked(Kind.EVALUATE, np.arange(3), 1.0, ServerState({}), version=4))
    'version 4 was evaluated by 0 of 3 devices: 0 declined, 3 did not answer'
    """
    found = counts(asked)
    what = "evaluated" if asked.kind is Kind.EVALUATE else "probed"
    return devices_note(what, asked.version, found.answered, len(asked.clients), found.declined, found.silent)


# ---- where models are judged -----------------------------------------------------------------------------------

Where = Literal["server", "devices", "both"]


@dataclass(frozen=True, slots=True)
class Share:
    """Who judges one model: the server on its test set, the server on clients' shards that it holds, the devices."""

    central: bool
    shards: bool
    devices: bool


def share_of(where: Where, clients: bool) -> Share:
    """Who judges a model of which clients' own scores are wanted too, or not.

    Devices are asked for every model if they alone judge; beside the server only where clients' scores are wanted.
    """
    match where:
        case "server":
            return Share(True, clients, False)
        case "devices":
            return Share(False, False, True)
        case "both":
            return Share(True, False, clients)


def evaluated(now: float, version: int, central: Judged | None, asked: Asked | None) -> Evaluated:
    """The fact that follows from what server and devices found; without the server the devices' samples are the test set."""
    if central is None:
        assert asked is not None
        whole = overall(asked)
    else:
        whole = central.score
    clients = scores(asked) if asked is not None else None if central is None else central.clients
    unseen = None if central is None else central.unseen
    return Evaluated(now, version, whole.correct, whole.total, whole.loss, clients, unseen)


# ---- inside ----------------------------------------------------------------------------------------------------


def _place(asked: Asked, task: int, client: int, now: float) -> tuple[int, Verdict]:
    place = task - asked.first
    if not holds(asked, task) or int(asked.clients[place]) != client:
        return -1, Verdict.STRAY
    if asked.fate[place] != Fate.SILENT:
        return place, Verdict.AGAIN
    if now >= asked.until:
        asked.late.add(place)
        return place, Verdict.LATE
    return place, Verdict.TAKEN


def _ended(asked: Asked, place: int, fate: Fate) -> Verdict:
    asked.fate[place] = fate
    asked.left -= 1
    return Verdict.TAKEN
