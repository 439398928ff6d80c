"""Devices that judge a model: who was asked until when, what they answered, and what follows from it. No clock, no socket.

Devices are asked to evaluate a model on their own test samples, or for its loss on their own training samples (a probe). They
may answer in any order, more than once, too late or never: the first answer of each counts, whoever has not answered in time is
left out of the result and counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from fedfleet.core.events import Probed
from fedfleet.core.records import ClientScores, Floats, Ints, Score, ServerState
from fedfleet.network.protocol.frames import FIRST_EVAL_TASK
from fedfleet.store.row_text import devices_note

_TASK_BITS = 20  # bits: so many tasks of judging can be handed out a second
_MAX_TOTAL = 2**53  # of a score: beyond, sums of floats would not be whole numbers


class RequestKind(IntEnum):
    """What devices are asked for, as in fleet.proto."""

    EVALUATE = 1
    PROBE = 2


class Fate(IntEnum):
    """What became of one device's part."""

    SILENT = 0
    ANSWERED = 1
    DECLINED = 2


class AnswerVerdict(IntEnum):
    """What is said of an answer that came."""

    ACCEPTED = 0
    DUPLICATE = 1  # it is known: nothing changes, and the device may rest
    LATE = 2
    FOREIGN = 3  # of somebody else, or of another task
    INVALID = 4  # its numbers cannot be


@dataclass(frozen=True, slots=True)
class Answer:
    """What one device says: its score as two integers (of a classification: right answers, samples), and the mean loss."""

    client: int
    correct: int = 0
    total: int = 0
    loss: float = math.nan


@dataclass(frozen=True, slots=True)
class ResponseCounts:
    """What became of those who were asked; `late` of the silent ones answered when it was over."""

    answered: int
    declined: int
    silent: int
    late: int = 0


@dataclass(slots=True)
class EvalRequest:
    """Devices that were asked, in the order in which they were named; device i has the task `first + i`.

    The columns are filled as answers come, since there may be a hundred thousand of them. `max_samples` are the samples that each
    can have, as far as that is known, and `counted` those on which its score counts at most. `score_range` is the least that one
    sample can add to the first integer of a score, and the most that it can add to the second, by the kind of the task.
    """

    kind: RequestKind
    clients: Ints
    deadline: float
    server: ServerState
    version: int = 0
    first: int = FIRST_EVAL_TASK
    max_samples: Ints | None = None
    counted: Ints | None = None
    score_range: tuple[int, int] = (0, 1)
    fate: Ints = field(init=False)
    correct: Ints = field(init=False)
    total: Ints = field(init=False)
    loss: Floats = field(init=False)
    remaining: int = field(init=False)  # how many have neither answered nor declined
    late: set[int] = field(init=False, default_factory=set[int])

    def __post_init__(self) -> None:
        n = len(self.clients)
        self.fate, self.correct, self.total = (np.zeros(n, np.int64) for _ in range(3))
        self.loss, self.remaining = np.full(n, np.nan), n


def first_eval_task(wall_seconds: float) -> int:
    """The first task of judging of a server that starts now: those of an earlier start, which this one forgot, are not among them.

    Tasks of a start never overtake the clock: a million a second are not handed out.

    >>> first_eval_task(1) - first_eval_task(0)
    1048576
    """
    return FIRST_EVAL_TASK + (int(wall_seconds) << _TASK_BITS)


def owns_task(request: EvalRequest, task: int) -> bool:
    """Is this one of its tasks?"""
    return 0 <= task - request.first < len(request.clients)


def record_answer(request: EvalRequest, task: int, response: Answer, now: float) -> AnswerVerdict:
    """Take what a device says to its task."""
    place, verdict = _locate(request, task, response.client, now)
    if verdict is not AnswerVerdict.ACCEPTED:
        return verdict
    if answer_fault(request, task, response) is not None:
        return AnswerVerdict.INVALID
    request.correct[place], request.total[place] = counted_score(response, request, place)
    request.loss[place] = response.loss if math.isfinite(response.loss) else math.nan
    return _end_part(request, place, Fate.ANSWERED)


def counted_score(response: Answer, request: EvalRequest, place: int) -> tuple[int, int]:
    """What counts of a score: on more samples than count it is that of so many, with the same accuracy, rounded down."""
    if request.counted is None or response.total <= (counted := int(request.counted[place]) * request.score_range[1]):
        return response.correct, response.total
    return response.correct * counted // response.total, counted


def record_decline(request: EvalRequest, task: int, client: int, now: float) -> AnswerVerdict:
    """A device will not or cannot do its part; or the server knows that it will not come back."""
    place, verdict = _locate(request, task, client, now)
    return verdict if verdict is not AnswerVerdict.ACCEPTED else _end_part(request, place, Fate.DECLINED)


def answer_fault(request: EvalRequest, task: int, response: Answer) -> str | None:
    """Why the numbers of an answer to one of its tasks cannot be; None if they can."""
    if request.kind is RequestKind.PROBE:
        return None  # a loss that is no number is an answer: this model has none there
    least, most = request.score_range
    limit = _MAX_TOTAL if request.max_samples is None else min(int(request.max_samples[task - request.first]) * most, _MAX_TOTAL)
    if not 1 <= response.total <= limit:
        what = "samples" if most == 1 else f"parts of samples, of which each has {most:,}"
        return f"it was judged on {response.total} {what}, and can be on 1 to {limit}"
    if not least * -(-response.total // most) <= response.correct <= response.total:
        return f"{response.correct} of {response.total} {'samples ' if most == 1 else ''}cannot be right"
    return None


def is_finished(request: EvalRequest, now: float) -> bool:
    """Has everybody answered or declined, or is the time over?"""
    return request.remaining == 0 or now >= request.deadline


def response_counts(request: EvalRequest) -> ResponseCounts:
    """How many answered, declined, and said nothing in time."""
    by_fate = np.bincount(request.fate, minlength=len(Fate)).tolist()
    return ResponseCounts(by_fate[Fate.ANSWERED], by_fate[Fate.DECLINED], by_fate[Fate.SILENT], len(request.late))


def client_scores(request: EvalRequest) -> ClientScores:
    """The scores of those who answered, in the order of their numbers."""
    rows = np.flatnonzero(request.fate == Fate.ANSWERED)
    rows = rows[np.argsort(request.clients[rows], kind="stable")]
    return ClientScores(request.clients[rows], request.correct[rows], request.total[rows])


def overall_score(request: EvalRequest) -> Score:
    """All answers as one score; the loss is the mean over all samples of those who told one."""
    with_loss = (request.fate == Fate.ANSWERED) & np.isfinite(request.loss)
    weight = int(request.total[with_loss].sum())
    loss = float(request.total[with_loss] @ request.loss[with_loss] / weight) if weight else math.nan
    return Score(int(request.correct.sum()), int(request.total.sum()), loss)


def probe_fact(request: EvalRequest, stat: str, now: float) -> Probed:
    """The fact that follows from a probe: NaN for whoever said nothing in time."""
    return Probed(now, stat, request.clients, np.where(request.fate == Fate.ANSWERED, request.loss, np.nan))


def response_summary(request: EvalRequest) -> str:
    """One sentence about who answered, for the journal and people.

    >>> response_summary(EvalRequest(RequestKind.EVALUATE, np.arange(3), 1.0, ServerState({}), version=4))
    'version 4 was evaluated by 0 of 3 devices: 0 declined, 3 did not answer'
    """
    responses = response_counts(request)
    action = "evaluated" if request.kind is RequestKind.EVALUATE else "probed"
    return devices_note(action, request.version, responses.answered, len(request.clients), responses.declined, responses.silent)


# ---- inside ----------------------------------------------------------------------------------------------------


def _locate(request: EvalRequest, task: int, client: int, now: float) -> tuple[int, AnswerVerdict]:
    place = task - request.first
    if not owns_task(request, task) or int(request.clients[place]) != client:
        return -1, AnswerVerdict.FOREIGN
    if request.fate[place] != Fate.SILENT:
        return place, AnswerVerdict.DUPLICATE
    if now >= request.deadline:
        request.late.add(place)
        return place, AnswerVerdict.LATE
    return place, AnswerVerdict.ACCEPTED


def _end_part(request: EvalRequest, place: int, fate: Fate) -> AnswerVerdict:
    request.fate[place] = fate
    request.remaining -= 1
    return AnswerVerdict.ACCEPTED
