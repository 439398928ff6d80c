"""The desk between handler threads and the coordinator: facts go in on one side, work comes out on the other.

Every fact is stamped under one lock, so that the order of the queue is the order of time. A wake-up that is due before
the next fact comes first, however late the coordinator looks: a deadline is where it is, not where somebody noticed.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from fedfleet.core.coding import Codec
from fedfleet.core.events import (
    CandidatesSeen,
    Evaluated,
    Fact,
    ReportsGathered,
    TaskArrived,
    TaskLost,
    TasksSpent,
    TimerFired,
)
from fedfleet.core.records import Report, Roster
from fedfleet.core.trees import Array, Tree

# A device that has not called for so long is not asked. Longer than any long poll, or waiting devices would be passed over.
QUIET_SECONDS = 15.0
_LONGEST_WAIT = 3600.0


@dataclass(frozen=True, slots=True)
class Errand:
    """One task on its way to a device and back. `heaviest` is the most that its report may weigh.

    Where its report comes in a code, `up` is that codec, and `like` what it decodes to.
    """

    task: int
    client: int
    round: int
    tensors: bytes = field(repr=False)
    steps: int
    share: float
    seed: int
    sent_at: float
    heaviest: float
    up: Codec | None = None
    like: Tree = field(default_factory=dict[str, Array], repr=False)


@dataclass(frozen=True, slots=True)
class RunOver:
    """The run is over, and why."""

    reason: str


class TaskDesk:
    """The one thing that threads share; everything in it is touched under its lock only."""

    def __init__(self, clients: int, byte_scale: float = 1.0) -> None:
        self.clients = clients
        self._byte_scale = byte_scale
        self._changed = threading.Condition()
        self._facts: deque[tuple[Fact, Report | None]] = deque()
        self._errands: dict[int, Errand] = {}  # by client: what was sent and neither reported nor withdrawn
        self._enrolled: set[int] = set()
        self._heard: dict[int, float] = {}  # by client that is ready for work: when it last called
        self._told: set[int] = set()
        self._ended: RunOver | None = None
        self._closed = False
        self._start = time.monotonic()

    # ---- for handler threads -------------------------------------------------------------------------------------

    def enrol(self, client: int) -> None:
        """This client is known. It is ready for work when it first pulls: before that it has to build what it trains.

        Enrolling again is how a device that was started again comes back.
        """
        with self._changed:
            self._enrolled.add(client)
            self._heard.pop(client, None)

    def pull(
        self, client: int, seconds: float, on_the_line: Callable[[], bool] = lambda: True
    ) -> Errand | RunOver | None:
        """Work for this client, or that the run is over; None after so many seconds. KeyError: it is not enrolled.

        A client that is no longer on the line hung up or died: it is not asked until it calls again.
        """
        until = time.monotonic() + seconds
        with self._changed:
            called = self._hear(client)
            while not self._closed:
                if not on_the_line():
                    if self._heard.get(client) == called:  # else it is back already, with another call
                        del self._heard[client]
                        self._changed.notify_all()
                    break
                if self._ended is not None:
                    self._told.add(client)
                    self._changed.notify_all()
                    return self._ended
                if client in self._errands:
                    return self._errands[client]
                left = until - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
        return None

    def claim(self, task: int, client: int) -> Errand | None:
        """The errand that this report would end, once and for all; None if nobody waits for it. KeyError: not enrolled."""
        with self._changed:
            self._hear(client)
            errand = self._errands.get(client)
            if errand is None or errand.task != task:
                return None
            return self._errands.pop(client)

    def arrived(self, errand: Errand, report: Report, nbytes: float) -> None:
        """Fact: the report of a claimed errand is here."""
        with self._changed:
            now = self._now()
            fact = TaskArrived(now, errand.task, errand.client, now - errand.sent_at, nbytes * self._byte_scale)
            self._put(fact, report)

    def lost(self, errand: Errand, reason: str) -> None:
        """Fact: what came back for a claimed errand cannot be used."""
        with self._changed:
            now = self._now()
            self._put(TaskLost(now, errand.task, errand.client, now - errand.sent_at, reason))

    # ---- for the coordinator -------------------------------------------------------------------------------------

    def await_enrolled(self, devices: int) -> None:
        """Wait until so many devices have enrolled and are ready; then the clock of the run starts at 0."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._heard) >= devices)
            self._start = time.monotonic()

    def hand_out(self, errands: Collection[Errand]) -> None:
        """Make work ready to be pulled."""
        with self._changed:
            self._errands |= {errand.client: errand for errand in errands}
            self._changed.notify_all()

    def withdraw(self, tasks: Collection[int]) -> None:
        """Nobody waits for these tasks any more."""
        with self._changed:
            gone = set(tasks)
            self._errands = {c: e for c, e in self._errands.items() if e.task not in gone}

    def answer(self, fact: TasksSpent | ReportsGathered | Evaluated) -> None:
        """A fact of the coordinator's own thread, which happens now: after all that came in while it was at work."""
        with self._changed:
            self._put(replace(fact, time=self._now()))

    def next_fact(
        self,
        timer: float | None,
        busy: Collection[int],
        roster: Callable[[list[int]], Roster] | None,
        *,
        at_least: int = 1,
    ) -> tuple[Fact, Report | None]:
        """What happens next, with the report that came with it; waits for it.

        `roster` is given while candidates are asked for: as soon as `at_least` so many are there and not `busy`, they are the
        answer.
        """
        with self._changed:
            while True:
                now = self._now()
                # A report that arrives exactly at a deadline counts, so on a tie the fact comes first.
                if timer is not None and timer <= now and not (self._facts and self._facts[0][0].time <= timer):
                    return TimerFired(timer), None
                if self._facts:
                    return self._facts.popleft()
                idle = self._idle(busy) if roster is not None else []
                if len(idle) >= at_least and roster is not None:
                    return CandidatesSeen(now, roster(idle)), None
                # Anything that matters notifies; the bound is there because a horizon may be centuries away.
                self._changed.wait(_LONGEST_WAIT if timer is None else min(timer - now, _LONGEST_WAIT))

    def finish(self, reason: str, patience: float) -> None:
        """Tell every device that it is over; those that do not ask within `patience` seconds find nobody."""
        with self._changed:
            self._errands.clear()
            self._ended = RunOver(reason)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._told.issuperset(self._idle(())), patience)

    def close(self) -> None:
        """Let every waiting call go; nothing can be pulled any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # ---- under the lock ------------------------------------------------------------------------------------------

    def _now(self) -> float:
        return time.monotonic() - self._start

    def _put(self, fact: Fact, report: Report | None = None) -> None:
        self._facts.append((fact, report))
        self._changed.notify_all()

    def _hear(self, client: int) -> float:
        if client not in self._enrolled:
            raise KeyError(client)
        now = time.monotonic()
        if self._heard.get(client, -math.inf) < now - QUIET_SECONDS:  # new or back again: it may be a candidate
            self._changed.notify_all()
        self._heard[client] = now
        return now

    def _idle(self, busy: Collection[int]) -> list[int]:
        oldest = time.monotonic() - QUIET_SECONDS
        return sorted(c for c, heard in self._heard.items() if heard >= oldest and c not in busy)
