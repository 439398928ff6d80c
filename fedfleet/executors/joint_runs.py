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
from fedfleet.executors.client_half import TrainedStack, reports
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked.device_fold import train_unstackable
from fedfleet.executors.stacked.executor import executor_at
from fedfleet.executors.stacked.joint_stack import Part, parts_of, train_parts
from fedfleet.executors.stacked.lean_loop import use_one_kernel_thread
from fedfleet.executors.stacked.numerics import can_join
from fedfleet.executors.stacked.placement import Place, open_place
from fedfleet.executors.stacked.schedule import sample_counts


class JointRunStop(BaseException):
    """The others were stopped, and so is this run: it can be resumed."""


@dataclass(slots=True)
class JoinedRun:
    """One run's place at a meeting."""

    parts: list[Part] | None = None  # what it waits for
    results: list[TrainedStack | Exception] | None = None
    has_left: bool = False
    ready: threading.Event = field(default_factory=threading.Event)  # its own: nobody wakes for what others wait for


@dataclass(slots=True)
class JointTraining:
    """Where runs meet. A run that has ended, failed or cannot join leaves its seat, and nobody waits for it any more."""

    runs: list[JoinedRun] = field(default_factory=list[JoinedRun])
    place: Place | None = None
    closed: bool = False
    turns: int = 0  # how often they met
    trained: int = 0  # stacks of runs that were trained
    trials: dict[Hashable, bool] = field(default_factory=dict[Hashable, bool])  # layouts that were tried
    # Only who serves waits for it.
    change: threading.Condition = field(default_factory=threading.Condition)

    def add_run(self) -> JoinedRun:
        """A place for one more run; everybody has one before the first begins."""
        run = JoinedRun()
        self.runs.append(run)
        return run

    def accepts(self, place: Place) -> bool:
        """Can stacks of this place stand beside those of the others? The first that comes decides what is trained here."""
        with self.change:
            if not can_join(place):
                return False
            if self.place is None:
                options = {"device": "cpu", "form": "merged", "tf32": False, "graphs": False}
                self.place = open_place(place.task, threads=place.threads, **options)
            return same_work(self.place.task, place.task)

    def train(self, run: JoinedRun, parts: list[Part]) -> list[TrainedStack]:
        """Wait for the others, and for what comes of one's own stacks."""
        with self.change:
            self.check_open()
            run.ready.clear()
            run.parts, run.results = parts, None
            self.change.notify()
        run.ready.wait()
        self.check_open()
        results, run.results = run.results or [], None
        for result in results:
            if isinstance(result, Exception):
                raise result
        return [found for found in results if isinstance(found, TrainedStack)]

    def check_open(self) -> None:
        """Stop here if everybody is to stop."""
        if self.closed:
            raise JointRunStop

    def leave(self, run: JoinedRun) -> None:
        """Go on without this one."""
        with self.change:
            run.has_left, run.parts = True, None
            self.change.notify()

    def close(self) -> None:
        """Send everybody home."""
        with self.change:
            self.closed = True
            self.change.notify()
            for run in self.runs:
                run.ready.set()

    def serve(self) -> None:
        """Train for everybody until the last one has left."""
        use_one_kernel_thread()
        while (waiting := self._waiting_runs()) is not None:
            parts = [part for seat in waiting for part in seat.parts or ()]
            assert self.place is not None
            results = train_parts(self.place, parts, self.trials)
            self.turns, self.trained = self.turns + 1, self.trained + len(parts)
            with self.change:
                for run in waiting:
                    count = len(run.parts or ())
                    run.results, results, run.parts = results[:count], results[count:], None
                    run.ready.set()

    def _waiting_runs(self) -> list[JoinedRun] | None:
        """Those who are still here, once all of them wait; None when nobody is left."""
        with self.change:
            while True:
                active = [run for run in self.runs if not run.has_left]
                if not active or self.closed:
                    return None
                if all(seat.parts is not None for seat in active):
                    return active
                self.change.wait()


def joint_executor(task: Task, training: JointTraining, run: JoinedRun, *, threads: int = 1, form: str = "merged") -> Executor:
    """The stacked executor of one run on a CPU, which trains at a meeting; one whose work cannot be joined trains alone."""
    inline(task)  # it settles the kernels of this process: deterministic ones
    place = open_place(task, device="cpu", threads=threads, form=form, tf32=False, graphs=False)
    own_executor = executor_at(place)
    if not training.accepts(place):
        training.leave(run)
        return own_executor

    def train(jobs: Sequence[Job]) -> Iterator[Report]:
        parts, ready = parts_of(place, jobs), dict[int, Report]()
        trained = training.train(run, parts) if parts else []
        for part, end in zip(parts, trained, strict=True):
            computed, real = sample_counts([prepared.job for prepared in part.group], part.group[0].local)
            place.computed, place.real = place.computed + computed, place.real + real
            ready |= zip(part.places, reports(part.group, end), strict=True)
        ready |= train_unstackable(place, jobs)
        yield from (ready[i] for i in range(len(jobs)))

    return replace(own_executor, train=train, fold=None)


def same_work(a: Task, b: Task) -> bool:
    """Are these the same model on the same samples, whatever is held out of them and wherever the model begins?"""
    if a is b:
        return True
    x, y = a.dataset, b.dataset
    same = (x.x is y.x or np.array_equal(x.x, y.x)) and (x.y is y.y or np.array_equal(x.y, y.y))
    return same and x.classes == y.classes and str(a.build()) == str(b.build())
