"""The critical path of every round, from its closing back to its opening, read from the journal.

A committed round closed because its last report came, or because a timer fired some time after it. From there the way leads
back: through what was waited for in vain (stragglers), through the stages of the task that brought the last report, to its
sending; before that lie the probe, the wait until enough clients could be reached, and what led to the ask: the pause after the
opening of the round, an earlier broadcast, or the end of another task, through which the way then goes on. A task that was sent
in an earlier round counts as far as it lies in this one. A failed round is one cause of its own.

The journal does not say when an ask went out, only when it was answered. It went out at the last moment at which the policy was
consulted, if the answer came at that instant; if it came later, at the first wake-up since the answer before, else at that
last moment. For policies that ask once in a round that is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from fedfleet.core.events import (
    CandidatesSeen,
    Evaluated,
    Event,
    ModelCommitted,
    Probed,
    ReportsGathered,
    RoundFailed,
    RunEnded,
    TaskArrived,
    TaskLost,
    TasksDropped,
    TasksSent,
    TasksSpent,
    TimerFired,
)
from fedfleet.core.records import Ints
from fedfleet.core.stages import STAGES, total
from fedfleet.measure.attribution.causes import (
    FAILED,
    PAUSE,
    PROBES,
    REACHABILITY,
    SERVER,
    SLACK,
    STRAGGLERS,
    UNFINISHED,
    Attribution,
    Blame,
    Cutting,
    RoundTime,
    sum_by_cause,
    total_attribution,
)
from fedfleet.measure.attribution.path_cursor import PathCursor, PathTask, Progress, Stages

Outstanding = dict[int, tuple[int, float]]  # client and time of each task that is out, by task
_HORIZON = "virtual_seconds"  # the one way to end a run in the middle of a round


def attribution(log: Sequence[Event], progress: Progress | None = None) -> Attribution:
    """Where the virtual time of a run went, which may still be going on.

    `progress(client, sent, time)` says how many seconds of work a task had done by a time, as only the world knows; without it
    tasks that began before the round that waited for them are divided evenly, and the result says so.
    """
    blame, outstanding, cutting = Blame(), Outstanding(), set[Cutting]()
    rounds: list[RoundTime] = []
    start = log[0].time if log else 0.0
    for events in rounds_of(without_evaluations(log)):
        closing = events[-1]
        match closing:
            case RoundFailed():
                parts, client, reason = [(FAILED, closing.time - start)], -1, closing.reason
            case ModelCommitted():
                walk = _RoundWalk(events, outstanding, start, blame, progress)
                client, reason = walk.critical_client(), ""
                parts = walk.walk_back()
                cutting.add(walk.cursor.cutting)
            case _:
                name = SERVER if isinstance(closing, RunEnded) and closing.reason != _HORIZON else UNFINISHED
                parts, client, reason = [(name, closing.time - start)], -1, ""
        closed = isinstance(closing, RoundFailed | ModelCommitted)
        causes = {cause: seconds for cause, seconds in sum_by_cause(parts).items() if seconds > 0}
        number = closing.round if isinstance(closing, RoundFailed | ModelCommitted) else len(rounds)
        if closed or causes:
            rounds.append(RoundTime(number, start, closing.time, causes, client, reason, closed))
        for event in events:
            update_outstanding(outstanding, event)
        start = closing.time
    ended = bool(log) and isinstance(log[-1], RunEnded)
    method: Cutting = "evenly" if "evenly" in cutting else "world" if "world" in cutting else "none"
    return total_attribution(rounds, blame.seconds, ended=ended, cutting=method)


def without_evaluations(log: Sequence[Event]) -> Sequence[Event]:
    """The events without looks at the model in the middle of a round: a wake-up of which only an evaluation follows, both in no
    time. They decide nothing, and no one waited for them."""
    evaluations = [
        i for i, (a, b) in enumerate(pairwise(log)) if isinstance(a, TimerFired) and isinstance(b, Evaluated) and b.clients is None
    ]
    dropped = {i + k for i in evaluations for k in (0, 1)}
    return [event for i, event in enumerate(log) if i not in dropped] if dropped else log


def rounds_of(log: Sequence[Event]) -> Iterator[Sequence[Event]]:
    """The events of each round, its closing last; and then those after the last closing, if there are any."""
    first = 0
    for i, event in enumerate(log):
        if isinstance(event, ModelCommitted | RoundFailed):
            yield log[first : i + 1]
            first = i + 1
    if first < len(log):
        yield log[first:]


def update_outstanding(outstanding: Outstanding, event: Event) -> None:
    """Who is at work after an event."""
    match event:
        case TasksSent():
            clients = enumerate(event.clients.tolist(), event.first)
            outstanding.update({task: (client, event.time) for task, client in clients})
        case TaskArrived() | TaskLost():
            outstanding.pop(event.task, None)
        case TasksDropped():
            for task in event.tasks.tolist():
                outstanding.pop(task, None)
        case _:
            pass


class _RoundWalk:
    """The way back through one committed round. `outstanding` are the tasks that were out when it opened."""

    def __init__(
        self, events: Sequence[Event], outstanding: Outstanding, start: float, blame: Blame, progress: Progress | None
    ) -> None:
        self.events, self.outstanding, self.start = events, outstanding, start
        evaluated = next((e.time for e in events if isinstance(e, Evaluated)), start)
        self.cursor = PathCursor(events[-1].time, max(start, evaluated), blame, progress)
        self.spent = [e for e in events if isinstance(e, TasksSpent)]
        self.critical = self._critical_place()

    def _critical_place(self) -> int:
        """The place of the last arrival that was folded; -1 if all had come before the round opened."""
        gathered = next((e for e in reversed(self.events) if isinstance(e, ReportsGathered)), None)
        folded = set[int]() if gathered is None else set(gathered.tasks.tolist())
        places = range(len(self.events) - 1, -1, -1)
        return next((i for i in places if isinstance(e := self.events[i], TaskArrived) and e.task in folded), -1)

    def critical_client(self) -> int:
        """Whose report closed the round."""
        event = self.events[self.critical] if self.critical >= 0 else None
        return event.client if isinstance(event, TaskArrived) else -1

    def walk_back(self) -> list[tuple[str, float]]:
        """From the closing to the opening."""
        cursor, last = self.cursor, len(self.events) - 1
        if self.spent:  # it is asked what tasks cost when a round is decided to close; then reports are folded
            cursor.back_to(self.spent[-1].time, SERVER)
        self._blame_stragglers(self.critical, last)
        place = self.critical
        while place >= 0 and cursor.at > cursor.floor:
            place = self._step(place)
        cursor.back_to(cursor.floor, PAUSE)
        cursor.floor = self.start
        cursor.back_to(self.start, SERVER)
        return cursor.parts

    def _step(self, place: int) -> int:
        """Back from this event to the one that led to it, whose place is the answer; -1: the opening of the round did."""
        event, cursor = self.events[place], self.cursor
        match event:
            case TaskArrived() | TaskLost():
                sent_at = self._sent_at(event.task, place)
                sent = self.outstanding[event.task][1] if sent_at < 0 else self.events[sent_at].time
                cursor.walk_task(PathTask(event.client, sent, event.time, self._stages(event.task)))
                return sent_at
            case TasksSent():
                return place - 1
            case Probed():
                candidates = self._previous(place, CandidatesSeen)
                cursor.back_to(self._time(candidates), PROBES, slowest(event))
                return candidates
            case CandidatesSeen():
                ask = self._ask_place(place)
                cursor.back_to(self._time(ask), REACHABILITY)
                return ask
            case TimerFired():
                before = self._previous(place, TasksSent, CandidatesSeen, Probed)
                if before >= 0 and isinstance(self.events[before], TasksSent):
                    self._blame_stragglers(before, place)
                else:  # somebody looked and found nobody, or nobody has looked yet
                    cursor.back_to(self._time(before), REACHABILITY if before >= 0 else PAUSE)
                return before
            case _:
                return -1

    def _previous(self, before: int, *kinds: type[Event]) -> int:
        """The place of the last event of these kinds before another; -1: there is none in this round."""
        return next((i for i in range(before - 1, -1, -1) if isinstance(self.events[i], kinds)), -1)

    def _time(self, place: int) -> float:
        return self.events[place].time if place >= 0 else self.cursor.floor

    def _ask_place(self, answer: int) -> int:
        """The place of the event at which the ask went out that was answered here; -1: the opening of the round."""
        timer, last = -1, -1
        for i in range(answer - 1, -1, -1):
            event = self.events[i]
            if isinstance(event, CandidatesSeen | Probed):
                break
            if isinstance(event, TimerFired | TaskArrived | TaskLost):
                last = i if last < 0 else last
                timer = i if isinstance(event, TimerFired) else timer
        waited = last >= 0 and self.events[last].time < self.events[answer].time
        return timer if waited and timer >= 0 else last

    def _blame_stragglers(self, first: int, last: int) -> None:
        """Back from one event to another, between which nothing came that was used."""
        running = self._running_counts(first, last)
        busy: list[int] | None = None
        for i in range(last - 1, first - 1, -1):
            since = self._time(i)
            if running[i - first] > 0:
                if busy is None and since < self.cursor.at:
                    busy = self._busy_clients(i)
                self.cursor.back_to(since, STRAGGLERS, busy or ())
            else:
                following = self.events[i + 1]
                looking = isinstance(following, CandidatesSeen | Probed)
                cause = (PROBES if isinstance(following, Probed) else REACHABILITY) if looking else SLACK
                self.cursor.back_to(since, cause)

    def _running_counts(self, first: int, last: int) -> list[int]:
        """How many tasks were out after each event from `first` to before `last`; -1 stands for the opening."""
        counts, n = [len(self.outstanding)], len(self.outstanding)
        for event in self.events[:last]:
            n += _outstanding_change(event)
            counts.append(n)
        return counts[first + 1 :]

    def _busy_clients(self, place: int) -> list[int]:
        """The clients that were at work after this event."""
        outstanding = dict(self.outstanding)
        for event in self.events[: place + 1]:
            update_outstanding(outstanding, event)
        return [client for client, _ in outstanding.values()]

    def _sent_at(self, task: int, before: int) -> int:
        """The place at which a task was sent; -1 if that was in an earlier round."""
        for i in range(before - 1, -1, -1):
            event = self.events[i]
            if isinstance(event, TasksSent) and event.first <= task:
                return i if task < event.first + len(event.clients) else -1
        return -1

    def _stages(self, task: int) -> Stages | None:
        """What a task's time went into, if anybody said so."""
        for event in reversed(self.spent):
            index = _index_of(event.tasks, task)
            if index >= 0:
                return {name: float(event.spent[name][index]) for name in STAGES if name in event.spent}
        return None


def _index_of(tasks: Ints, task: int) -> int:
    index = int(np.searchsorted(tasks, task))
    return index if index < len(tasks) and tasks[index] == task else -1


def _outstanding_change(event: Event) -> int:
    """By how many tasks an event changes how many are out."""
    match event:
        case TasksSent():
            return len(event.clients)
        case TaskArrived() | TaskLost():
            return -1
        case TasksDropped():
            return -len(event.tasks)
        case _:
            return 0


def slowest(probed: Probed) -> list[int]:
    """For whom a probe had to wait: those who did not answer in time, else whoever took longest; nobody if it was free."""
    silent = np.isnan(probed.values)
    if silent.any() and not silent.all():
        return probed.clients[silent].tolist()
    stages = {name: column for name, column in probed.spent.items() if name in STAGES}
    return [int(probed.clients[int(np.argmax(total(stages)))])] if stages else []
