"""What is known of a run while it goes on: events as they come, folded into rounds, devices, traffic and faults."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from fedfleet.app.pages.report.number_words import as_people
from fedfleet.core.events import (
    CandidatesSeen,
    Evaluated,
    Event,
    ModelCommitted,
    ReportRejected,
    ReportsGathered,
    RoundFailed,
    RunBegan,
    RunEnded,
    TaskArrived,
    TaskLost,
    TasksDropped,
    TasksSent,
    TasksSpent,
    TaskStruck,
)
from fedfleet.core.stages import STAGES

# What became of a task. BACK: its report is there, the round is not over yet.
WORKING, BACK, USED, LATE, LOST, REFUSED, WASTED = range(7)
# What a device does now, one letter each: at work, reported this round, idle after a good turn, late at its last turn, lost,
# refused, offline (which only a server can know), never asked.
STATES = "wrulxno-"
_NEVER, _OFFLINE = "-", "o"
_FAULTS = 60  # that are remembered with their words
_AWAY_SECONDS = 0.5  # out of reach for less than that is rounding


@dataclass(slots=True)
class Round:
    """One round: how many were asked, and what came of it. `ended`: 1 a model, -1 none, 0 not over."""

    number: int
    start: float
    due: float | None = None
    first: int = 0
    asked: int = 0
    used: int = 0
    late: int = 0
    lost: int = 0
    ended: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """The central test set's word on one model."""

    time: float
    version: int
    correct: int
    total: int

    @property
    def accuracy(self) -> float:
        """The share that was right."""
        return self.correct / self.total if self.total else 0.0

    @property
    def margin(self) -> float:
        """Half of the 95 % interval that the size of the test set leaves."""
        p = self.accuracy
        return 1.96 * math.sqrt(p * (1 - p) / self.total) if self.total else 0.0


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that went wrong, in words; `client` is None for a whole round."""

    round: int
    client: int | None
    words: str
    grave: bool = False


@dataclass(slots=True)
class Turn:
    """One task of one device."""

    client: int
    round: int
    sent: float
    down: float
    up: float = 0.0
    seconds: float = math.nan
    fate: int = WORKING
    reason: str = ""


@dataclass(slots=True)
class RunView:
    """Everything that the events so far tell; `hear` takes the next one in."""

    clients: int = 0
    seed: int = 0
    time: float = 0.0
    online: int | None = None  # how many could be asked when somebody last looked
    commits: int = 0
    ended: str | None = None
    scores: list[Score] = field(default_factory=list[Score])
    rounds: list[Round] = field(default_factory=list[Round])
    turns: list[Turn] = field(default_factory=list[Turn])
    client_tasks: dict[int, list[int]] = field(
        default_factory=dict[int, list[int]]
    )  # tasks of each client that was asked
    in_model: set[int] = field(default_factory=set[int])
    failed: Counter[str] = field(default_factory=Counter[str])
    counts: Counter[int] = field(default_factory=Counter[int])  # tasks by fate
    why_late: Counter[str] = field(default_factory=Counter[str])  # of those late ones of whom it is known
    faults: deque[Fault] = field(default_factory=lambda: deque[Fault](maxlen=_FAULTS))
    _waiting: set[int] = field(default_factory=set[int])  # reports that are back and not folded yet
    _gathered: list[int] = field(default_factory=list[int])
    _down: float = 0.0
    _up: float = 0.0

    @property
    def bytes_down(self) -> float:
        """What went to devices, as far as it moved."""
        return self._down

    @property
    def bytes_up(self) -> float:
        """What came from devices, used or not."""
        return self._up

    @property
    def round(self) -> Round | None:
        """The round that goes on, or the last one."""
        return self.rounds[-1] if self.rounds else None

    def apply(self, event: Event) -> None:
        """Take in what happened next."""
        self.time = max(self.time, event.time)
        match event:
            case RunBegan():
                self.clients, self.seed = event.clients, event.seed
            case CandidatesSeen():
                self.online = len(event.roster.clients)
            case TasksSent():
                self._add_tasks(event)
            case TaskArrived():
                self._add_report(event)
            case TaskLost() | TaskStruck():
                self._mark_lost(event)
            case TasksDropped():
                for task, seconds in zip(event.tasks.tolist(), event.seconds.tolist(), strict=True):
                    self._drop_task(task, seconds)
            case ReportRejected():
                self._waiting.discard(event.task)
                self._end_task(event.task, REFUSED, reason=event.reason)
                self._add_fault(event.task, f"its report was refused: {event.reason}")
            case ReportsGathered():
                self._gathered = event.tasks.tolist()
                self._waiting.difference_update(self._gathered)
            case TasksSpent():
                self._correct_costs(event)
            case Evaluated():
                self.scores.append(Score(event.time, event.version, event.correct, event.total))
            case ModelCommitted():
                self._close_with_model(event)
            case RoundFailed():
                self._close_without_model(event)
            case RunEnded():
                self.ended = event.reason
            case _:
                pass

    def _add_tasks(self, event: TasksSent) -> None:
        last = self.round
        if last is None or last.number != event.round:
            self.rounds.append(Round(event.round, event.time, event.due, event.first))
        self.rounds[-1].asked += len(event.clients)
        self.rounds[-1].due = event.due if event.due is not None else self.rounds[-1].due
        for i, (client, down) in enumerate(zip(event.clients.tolist(), event.bytes_down.tolist(), strict=True)):
            self.turns.append(Turn(client, event.round, event.time, down))
            self.client_tasks.setdefault(client, []).append(event.first + i)
            self._down += down
        self.counts[WORKING] += len(event.clients)

    def _add_report(self, event: TaskArrived) -> None:
        turn = self._end_task(event.task, BACK, event.seconds)
        if turn is not None:
            turn.up = event.bytes_up
            self._up += event.bytes_up
            self._waiting.add(event.task)

    def _mark_lost(self, event: TaskLost | TaskStruck) -> None:
        turn = self._end_task(event.task, LOST, event.seconds, event.reason)
        self._count_in_round(turn, "lost")
        self._add_fault(event.task, f"lost: {event.reason}", grave=True)

    def _drop_task(self, task: int, seconds: float) -> None:
        turn = self._turn(task)
        if turn is None or turn.fate == LOST:  # it came to grief before
            return
        self._end_task(task, LATE, seconds)
        self._count_in_round(turn, "late")
        self._add_fault(task, "late")

    def _close_with_model(self, event: ModelCommitted) -> None:
        self.commits += 1
        for task in self._gathered:
            turn = self._end_task(task, USED)
            if turn is not None:
                self.in_model.add(turn.client)
        self._close_round(event.round, 1, used=event.folded)
        self._gathered = []

    def _close_without_model(self, event: RoundFailed) -> None:
        reason = as_people(event.reason)
        self.failed[reason] += 1
        for task in self._waiting:
            self._end_task(task, WASTED, reason="its round failed")
        self._waiting.clear()
        self._close_round(event.round, -1, reason=reason)
        self.faults.append(Fault(event.round, None, f"the round failed: {reason}", grave=True))

    def _close_round(self, number: int, outcome: int, used: int = 0, reason: str = "") -> None:
        round_ = next((r for r in reversed(self.rounds) if r.number <= number), None)
        if round_ is None or round_.number != number:  # a round in which nobody was asked
            round_ = Round(number, self.time, first=len(self.turns))
            self.rounds.append(round_)
        round_.ended, round_.used, round_.reason = outcome, used, reason

    def _correct_costs(self, event: TasksSpent) -> None:
        """What really moved, instead of what was foreseen; and who was out of reach: what goes beyond the stages of the work."""
        n = len(event.tasks)
        down, up = (event.spent.get(name, np.zeros(n)) for name in ("bytes_down", "bytes_up"))
        work = sum((event.spent[name] for name in STAGES if name in event.spent), np.zeros(n))
        for i, task in enumerate(event.tasks.tolist()):
            turn = self._turn(task)
            if turn is None:
                continue
            moved_down = turn.down if math.isnan(down[i]) else float(down[i])
            moved_up = turn.up if math.isnan(up[i]) else float(up[i])
            self._down, self._up = self._down + moved_down - turn.down, self._up + moved_up - turn.up
            turn.down, turn.up = moved_down, moved_up
            if turn.fate == LATE and not turn.reason:
                out_of_reach = turn.seconds - float(work[i]) > _AWAY_SECONDS
                unknown = math.isnan(work[i])  # on a real network nobody says why no report came
                turn.reason = "no report came" if unknown else "went out of reach" if out_of_reach else "too slow"
                self.why_late[turn.reason] += 1

    def _turn(self, task: int) -> Turn | None:
        return self.turns[task] if 0 <= task < len(self.turns) else None

    def _end_task(self, task: int, fate: int, seconds: float = math.nan, reason: str = "") -> Turn | None:
        turn = self._turn(task)
        if turn is not None:
            self.counts[turn.fate] -= 1
            self.counts[fate] += 1
            turn.fate, turn.reason = fate, reason or turn.reason
            turn.seconds = turn.seconds if math.isnan(seconds) else seconds
        return turn

    def _count_in_round(self, turn: Turn | None, counter: str) -> None:
        round_ = None if turn is None else next((r for r in reversed(self.rounds) if r.number <= turn.round), None)
        if round_ is not None:
            setattr(round_, counter, getattr(round_, counter) + 1)

    def _add_fault(self, task: int, words: str, *, grave: bool = False) -> None:
        turn = self._turn(task)
        if turn is not None:
            self.faults.append(Fault(turn.round, turn.client, words, grave))


def build_view(events: Iterable[Event]) -> RunView:
    """What these events tell together."""
    view = RunView()
    for event in events:
        view.apply(event)
    return view


def device_states(view: RunView, present: str = "") -> str:
    """One letter of STATES for each device, in the order of their numbers; `present` says of each with 1 or 0 if it is there.

    A device that trains does not call its server meanwhile: it is at work, whether or not it counts as present.
    """
    letters = bytearray(_NEVER.encode() * view.clients)
    now = view.round.number if view.round else 0
    for client, tasks in view.client_tasks.items():
        if client < len(letters):
            letters[client] = ord(_state(view.turns[tasks[-1]], now))
    for client, flag in enumerate(present[: view.clients]):
        if flag == "0" and letters[client] != ord("w"):
            letters[client] = ord(_OFFLINE)
    return letters.decode()


def _state(turn: Turn, now: int) -> str:
    match turn.fate:
        case 0:
            return "w"
        case 1 | 2:
            return "r" if turn.round == now else "u"
        case 3:
            return "l"
        case 4:
            return "x"
        case 5:
            return "n"
        case _:
            return "u"
