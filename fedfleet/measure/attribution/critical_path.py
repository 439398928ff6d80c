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

from fedfleet.core import events
from fedfleet.core.events import Event
from fedfleet.core.stages import STAGES, total
from fedfleet.measure.attribution import causes
from fedfleet.measure.attribution.causes import Attribution, Blame, Cutting, RoundTime
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
    for round_events in rounds_of(without_evaluations(log)):
        closing = round_events[-1]
        match closing:
            case events.RoundFailed():
                parts, client, reason = [(causes.FAILED, closing.time - start)], -1, closing.reason
            case events.ModelCommitted():
                walk = _RoundWalk(round_events, outstanding, start, blame, progress)
                client, reason = walk.critical_client(), ""
                parts = walk.walk_back()
                cutting.add(walk.cursor.cutting)
            case _:
                name = causes.SERVER if isinstance(closing, events.RunEnded) and closing.reason != _HORIZON else causes.UNFINISHED
                parts, client, reason = [(name, closing.time - start)], -1, ""
        closed = isinstance(closing, events.RoundFailed | events.ModelCommitted)
        by_cause = {cause: seconds for cause, seconds in causes.sum_by_cause(parts).items() if seconds > 0}
        number = closing.round if isinstance(closing, events.RoundFailed | events.ModelCommitted) else len(rounds)
        if closed or by_cause:
            rounds.append(RoundTime(number, start, closing.time, by_cause, client, reason, closed))
        for event in round_events:
            update_outstanding(outstanding, event)
        start = closing.time
    ended = bool(log) and isinstance(log[-1], events.RunEnded)
    method: Cutting = "evenly" if "evenly" in cutting else "world" if "world" in cutting else "none"
    return causes.total_attribution(rounds, blame.seconds, ended=ended, cutting=method)


def without_evaluations(log: Sequence[Event]) -> Sequence[Event]:
    """The events without looks at the model in the middle of a round: a wake-up of which only an evaluation follows, both in no
    time. They decide nothing, and no one waited for them."""
    evaluations = [
        i
        for i, (a, b) in enumerate(pairwise(log))
        if isinstance(a, events.TimerFired) and isinstance(b, events.Evaluated) and b.clients is None
    ]
    dropped = {i + k for i in evaluations for k in (0, 1)}
    return [event for i, event in enumerate(log) if i not in dropped] if dropped else log


def rounds_of(log: Sequence[Event]) -> Iterator[Sequence[Event]]:
    """The events of each round, its closing last; and then those after the last closing, if there are any."""
    first = 0
    for i, event in enumerate(log):
        if isinstance(event, events.ModelCommitted | events.RoundFailed):
            yield log[first : i + 1]
            first = i + 1
    if first < len(log):
        yield log[first:]


def update_outstanding(outstanding: Outstanding, event: Event) -> None:
    """Who is at work after an event."""
    match event:
        case events.TasksSent():
            clients = enumerate(event.clients.tolist(), event.first)
            outstanding.update({task: (client, event.time) for task, client in clients})
        case events.TaskArrived() | events.TaskLost():
            outstanding.pop(event.task, None)
        case events.TasksDropped():
            for task in event.tasks.tolist():
                outstanding.pop(task, None)
        case _:
            pass


class _RoundWalk:
    """The way back through one committed round. `outstanding` are the tasks that were out when it opened."""

    def __init__(
        self, round_events: Sequence[Event], outstanding: Outstanding, start: float, blame: Blame, progress: Progress | None
    ) -> None:
        self.events, self.outstanding, self.start = round_events, outstanding, start
        evaluated = next((e.time for e in round_events if isinstance(e, events.Evaluated)), start)
        self.cursor = PathCursor(round_events[-1].time, max(start, evaluated), blame, progress)
        self.spent = [e for e in round_events if isinstance(e, events.TasksSpent)]
        # The place of the last arrival that was folded; -1 if all had come before the round opened.
        gathered = next((e for e in reversed(round_events) if isinstance(e, events.ReportsGathered)), None)
        folded = set[int]() if gathered is None else set(gathered.tasks.tolist())
        arrivals = [i for i, e in enumerate(round_events) if isinstance(e, events.TaskArrived) and e.task in folded]
        self.critical = arrivals[-1] if arrivals else -1

    def critical_client(self) -> int:
        """Whose report closed the round."""
        event = self.events[self.critical] if self.critical >= 0 else None
        return event.client if isinstance(event, events.TaskArrived) else -1

    def walk_back(self) -> list[tuple[str, float]]:
        """From the closing to the opening."""
        cursor, last = self.cursor, len(self.events) - 1
        if self.spent:  # it is asked what tasks cost when a round is decided to close; then reports are folded
            cursor.back_to(self.spent[-1].time, causes.SERVER)
        self._blame_stragglers(self.critical, last)
        place = self.critical
        while place >= 0 and cursor.at > cursor.floor:
            place = self._step(place)
        cursor.back_to(cursor.floor, causes.PAUSE)
        cursor.floor = self.start
        cursor.back_to(self.start, causes.SERVER)
        return cursor.parts

    def _step(self, place: int) -> int:
        """Back from this event to the one that led to it, whose place is the answer; -1: the opening of the round did."""
        event, cursor = self.events[place], self.cursor
        match event:
            case events.TaskArrived() | events.TaskLost():
                sent_at = self._sent_at(event.task, place)
                sent = self.outstanding[event.task][1] if sent_at < 0 else self.events[sent_at].time
                cursor.walk_task(PathTask(event.client, sent, event.time, self._stages(event.task)))
                return sent_at
            case events.TasksSent():
                return place - 1
            case events.Probed():
                candidates = self._previous(place, events.CandidatesSeen)
                cursor.back_to(self._time(candidates), causes.PROBES, slowest(event))
                return candidates
            case events.CandidatesSeen():
                ask = self._ask_place(place)
                cursor.back_to(self._time(ask), causes.REACHABILITY)
                return ask
            case events.TimerFired():
                before = self._previous(place, events.TasksSent, events.CandidatesSeen, events.Probed)
                if before >= 0 and isinstance(self.events[before], events.TasksSent):
                    self._blame_stragglers(before, place)
                else:  # somebody looked and found nobody, or nobody has looked yet
                    cursor.back_to(self._time(before), causes.REACHABILITY if before >= 0 else causes.PAUSE)
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
            if isinstance(event, events.CandidatesSeen | events.Probed):
                break
            if isinstance(event, events.TimerFired | events.TaskArrived | events.TaskLost):
                last = i if last < 0 else last
                timer = i if isinstance(event, events.TimerFired) else timer
        waited = last >= 0 and self.events[last].time < self.events[answer].time
        return timer if waited and timer >= 0 else last

    def _blame_stragglers(self, first: int, last: int) -> None:
        """Back from one event to another, between which nothing came that was used."""
        # How many tasks were out after each event from `first` to before `last`; -1 stands for the opening.
        outstanding, counts = dict(self.outstanding), [len(self.outstanding)]
        for event in self.events[:last]:
            update_outstanding(outstanding, event)
            counts.append(len(outstanding))
        running = counts[first + 1 :]
        busy: list[int] | None = None
        for i in range(last - 1, first - 1, -1):
            since = self._time(i)
            if running[i - first] > 0:
                if busy is None and since < self.cursor.at:
                    outstanding = dict(self.outstanding)
                    for event in self.events[: i + 1]:
                        update_outstanding(outstanding, event)
                    busy = [client for client, _ in outstanding.values()]
                self.cursor.back_to(since, causes.STRAGGLERS, busy or ())
            else:
                following = self.events[i + 1]
                looking = isinstance(following, events.CandidatesSeen | events.Probed)
                cause = (
                    (causes.PROBES if isinstance(following, events.Probed) else causes.REACHABILITY) if looking else causes.SLACK
                )
                self.cursor.back_to(since, cause)

    def _sent_at(self, task: int, before: int) -> int:
        """The place at which a task was sent; -1 if that was in an earlier round."""
        for i in range(before - 1, -1, -1):
            event = self.events[i]
            if isinstance(event, events.TasksSent) and event.first <= task:
                return i if task < event.first + len(event.clients) else -1
        return -1

    def _stages(self, task: int) -> Stages | None:
        """What a task's time went into, if anybody said so."""
        for event in reversed(self.spent):
            index = int(np.searchsorted(event.tasks, task))
            if index < len(event.tasks) and event.tasks[index] == task:
                return {name: float(event.spent[name][index]) for name in STAGES if name in event.spent}
        return None


def slowest(probed: events.Probed) -> list[int]:
    """For whom a probe had to wait: those who did not answer in time, else whoever took longest; nobody if it was free."""
    silent = np.isnan(probed.values)
    if silent.any() and not silent.all():
        return probed.clients[silent].tolist()
    stages = {name: column for name, column in probed.spent.items() if name in STAGES}
    return [int(probed.clients[int(np.argmax(total(stages)))])] if stages else []
