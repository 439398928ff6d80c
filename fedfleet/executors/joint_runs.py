"""Runs that advance together: when all that still go on want to train, their stacks are trained in one.

Each run simulates in a thread of its own, with its own journal, memory and checkpoints, and knows nothing of the others: it asks
its executor for reports and waits. The bits are those of the run alone (see `stacked.joint`). Whoever trains is the thread that
`serve`s, so that an interrupt reaches it and ends all.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedfleet.core.parts import Executor, Job, Task
from fedfleet.core.records import Report
from fedfleet.executors.client_half import StackEnd, reports
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked.executor import executor_at, trained_literally
from fedfleet.executors.stacked.joint_stack import Part, parts_of, train_parts
from fedfleet.executors.stacked.lean_loop import alone_on_its_core
from fedfleet.executors.stacked.numerics import joins
from fedfleet.executors.stacked.placement import Place, open_place
from fedfleet.executors.stacked.schedule import work_of


class Ended(BaseException):
    """The others were stopped, and so is this run: it can be resumed."""


@dataclass(slots=True)
class Seat:
    """One run's place at a meeting."""

    parts: list[Part] | None = None  # what it waits for
    ended: list[StackEnd | Exception] | None = None
    left: bool = False
    answered: threading.Event = field(default_factory=threading.Event)  # its own: nobody wakes for what others wait for


@dataclass(slots=True)
class Meeting:
    """Where runs meet. A run that has ended, failed or cannot join leaves its seat, and nobody waits for it any more."""

    seats: list[Seat] = field(default_factory=list[Seat])
    where: Place | None = None
    closed: bool = False
    turns: int = 0  # how often they met
    trained: int = 0  # stacks of runs that were trained
    shown: dict[Hashable, bool] = field(default_factory=dict[Hashable, bool])  # layouts that were tried
    # Only who serves waits for it.
    change: threading.Condition = field(default_factory=threading.Condition)

    def seat(self) -> Seat:
        """A place for one more run; everybody has one before the first begins."""
        found = Seat()
        self.seats.append(found)
        return found

    def admits(self, where: Place) -> bool:
        """Can stacks of this place stand beside those of the others? The first that comes decides what is trained here."""
        with self.change:
            if not joins(where):
                return False
            if self.where is None:
                own = {"device": "cpu", "form": "merged", "tf32": False, "graphs": False}
                self.where = open_place(where.task, threads=where.threads, **own)
            return same_work(self.where.task, where.task)

    def train(self, seat: Seat, parts: list[Part]) -> list[StackEnd]:
        """Wait for the others, and for what comes of one's own stacks."""
        with self.change:
            self.check()
            seat.answered.clear()
            seat.parts, seat.ended = parts, None
            self.change.notify()
        seat.answered.wait()
        self.check()
        ended, seat.ended = seat.ended or [], None
        for found in ended:
            if isinstance(found, Exception):
                raise found
        return [found for found in ended if isinstance(found, StackEnd)]

    def check(self) -> None:
        """Stop here if everybody is to stop."""
        if self.closed:
            raise Ended

    def leave(self, seat: Seat) -> None:
        """Go on without this one."""
        with self.change:
            seat.left, seat.parts = True, None
            self.change.notify()

    def close(self) -> None:
        """Send everybody home."""
        with self.change:
            self.closed = True
            self.change.notify()
            for seat in self.seats:
                seat.answered.set()

    def serve(self) -> None:
        """Train for everybody until the last one has left."""
        alone_on_its_core()
        while (waiting := self._all_waiting()) is not None:
            parts = [part for seat in waiting for part in seat.parts or ()]
            assert self.where is not None
            ended = train_parts(self.where, parts, self.shown)
            self.turns, self.trained = self.turns + 1, self.trained + len(parts)
            with self.change:
                for seat in waiting:
                    count = len(seat.parts or ())
                    seat.ended, ended, seat.parts = ended[:count], ended[count:], None
                    seat.answered.set()

    def _all_waiting(self) -> list[Seat] | None:
        """Those who are still here, once all of them wait; None when nobody is left."""
        with self.change:
            while True:
                here = [seat for seat in self.seats if not seat.left]
                if not here or self.closed:
                    return None
                if all(seat.parts is not None for seat in here):
                    return here
                self.change.wait()


def joined(task: Task, meeting: Meeting, seat: Seat, *, threads: int = 1, form: str = "merged") -> Executor:
    """The stacked executor of one run on a CPU, which trains at a meeting; one whose work cannot be joined trains alone."""
    inline(task)  # it settles the kernels of this process: deterministic ones
    where = open_place(task, device="cpu", threads=threads, form=form, tf32=False, graphs=False)
    alone = executor_at(where)
    if not meeting.admits(where):
        meeting.leave(seat)
        return alone

    def train(jobs: Sequence[Job]) -> Iterator[Report]:
        parts, ready = parts_of(where, jobs), dict[int, Report]()
        ended = meeting.train(seat, parts) if parts else []
        for part, end in zip(parts, ended, strict=True):
            computed, real = work_of([begun.job for begun in part.group], part.group[0].local)
            where.computed, where.real = where.computed + computed, where.real + real
            ready |= zip(part.places, reports(part.group, end), strict=True)
        ready |= trained_literally(where, jobs)
        yield from (ready[i] for i in range(len(jobs)))

    return replace(alone, train=train)


def same_work(a: Task, b: Task) -> bool:
    """Are these the same model on the same samples, whatever is held out of them and wherever the model begins?"""
    if a is b:
        return True
    x, y = a.dataset, b.dataset
    same = (x.x is y.x or np.array_equal(x.x, y.x)) and (x.y is y.y or np.array_equal(x.y, y.y))
    return same and x.classes == y.classes and str(a.build()) == str(b.build())
