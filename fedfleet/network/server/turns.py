"""What a turn of the server's loop is made of: effects that components return, when there is a turn, the run that it steps."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from fedfleet.core.commands import Command, Evaluate, Gather
from fedfleet.core.events import Event, Fact, Outcome
from fedfleet.core.parts import Plan
from fedfleet.engine.coordinator import step
from fedfleet.engine.state import Phase, RunState
from fedfleet.network.operations.logs import Level, Log, no_log
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.store.journal import Journal


class Tell(NamedTuple):
    """This goes out at the end of the turn: to one frontend, or to all that are ready, `but` perhaps one."""

    message: inside.ToTransmitter
    frontend: int | None = None
    but: int | None = None


class TellNow(NamedTuple):
    """This goes to one frontend before everything of this turn, as soon as the journal is on the disk."""

    message: inside.ToTransmitter
    frontend: int


class React(NamedTuple):
    """The coordinator takes this fact at once; after the end of its task's round, an arrival or a loss is left out."""

    fact: Fact


class ReactLater(NamedTuple):
    """The coordinator takes this fact when it has taken all that are at hand; its time is moved on if need be."""

    fact: Fact


class Note(NamedTuple):
    """A sentence for the journal and the log."""

    text: str
    level: Literal["info", "warning"] = "warning"


class ReportMeta(NamedTuple):
    """What a device reported with its update: the weight, and statistics by name. Small, since there is one for every report."""

    weight: float
    names: tuple[str, ...]
    values: tuple[float, ...]

    def stats(self) -> dict[str, float]:
        """By name."""
        return dict(zip(self.names, self.values, strict=True))


@dataclass(frozen=True, slots=True)
class CommitJob:
    """All sums are here: make a model of them in the background.

    That takes what is asked for, which reports were rejected already, and where the reports are.
    """

    command: Gather
    bucket: int
    refusals: Mapping[int, str]
    metas: Mapping[int, ReportMeta]
    sums: Sequence[str]  # files of partial sums
    count: int  # of reports in them
    spools: Sequence[str]  # folders, where reports were spooled instead


class StartEvaluation(NamedTuple):
    """The server's own evaluator tries a model in the background, on the clients' shards too if that is asked."""

    command: Evaluate
    shards: bool


Effect = Tell | TellNow | React | ReactLater | Note | CommitJob | StartEvaluation
Effects = list[Effect]


def tell_withdrawn(tasks: Sequence[int], *, frontend: int | None = None, but: int | None = None) -> Tell:
    """Devices are not given these tasks any more."""
    return Tell(inside.ToTransmitter(withdrawn=tasks), frontend, but)


_LONGEST_PAUSE = 1.0  # seconds between two turns


class Turns:
    """Calls `turn` when there is something to do, and once a second at least, until the run is over or failed."""

    def __init__(self, turn: Callable[[], None], at: float) -> None:
        """`at`: the clock of the run goes on there; the time that a killed server was away does not count."""
        self._turn = turn
        self._inbox: deque[Callable[[], None]] = deque()
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._jobs: set[asyncio.Task[Any]] = set()
        self._started_at = time.monotonic() - at
        self.done: asyncio.Future[None] | None = None

    def elapsed(self) -> float:
        """Seconds since the run began, on the monotonic clock."""
        return time.monotonic() - self._started_at

    def schedule(self, work: Callable[[], None] | None = None) -> None:
        """Do this in the next turn, and let there be one."""
        if work is not None:
            self._inbox.append(work)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._take_turn)

    def schedule_in(self, seconds: float) -> None:
        """Let there be a turn after so many seconds, or after the longest pause."""
        self.cancel_timer()
        delay = min(max(seconds, 0.0), _LONGEST_PAUSE)
        self._timer = asyncio.get_running_loop().call_later(delay, self.schedule)

    def run_in_background(self, work: Coroutine[Any, Any, Any]) -> None:
        """Let something happen in the background; if it fails, the run does."""
        job = asyncio.get_running_loop().create_task(work)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        job.add_done_callback(lambda j: None if j.cancelled() else self.fail(j.exception()))

    def fail(self, error: BaseException | None) -> None:
        """The run cannot go on."""
        if self.done is not None and not self.done.done() and error is not None:
            self.done.set_exception(error)

    def finish(self) -> None:
        """The run is over."""
        if self.done is not None and not self.done.done():
            self.done.set_result(None)

    def do_scheduled(self) -> None:
        """Do what was scheduled for this turn."""
        while self._inbox:
            self._inbox.popleft()()

    def cancel_timer(self) -> None:
        """No turn by the clock."""
        if self._timer is not None:
            self._timer.cancel()

    def close(self) -> None:
        """End everything that was started here."""
        self.cancel_timer()
        for job in list(self._jobs):
            job.cancel()

    def _take_turn(self) -> None:
        self._scheduled = False
        if self.done is not None and self.done.done():
            return
        try:
            self._turn()
        except BaseException as error:
            self.fail(error)
            if not isinstance(error, Exception):
                raise


EventListener = Callable[[Sequence[Event]], None]


class JournaledRun:
    """The same coordinator as in a simulation. What it decides may leave the server after `flush`, not before."""

    def __init__(self, plan: Plan, journal: Journal, state: RunState, listeners: list[EventListener]) -> None:
        self.plan, self.state = plan, state
        self.listeners = listeners
        self.log: Log = no_log
        self.wake_at: float | None = None  # when the coordinator wants to be woken
        self._journal, self._unflushed = journal, False
        self._facts: deque[Fact] = deque()

    def react(self, fact: Fact) -> tuple[Sequence[Outcome], Sequence[Command]]:
        """Step by a fact. A later one may have been taken before: time never falls."""
        now = self.state.book.now
        fact = fact if fact.time >= now else replace(fact, time=now)
        self.state, outcomes, commands = step(self.plan, self.state, fact)
        self.record_events((fact, *outcomes))
        return outcomes, commands

    def react_later(self, fact: Fact) -> None:
        """Step by this fact when its turn comes."""
        self._facts.append(fact)

    def next_fact(self) -> Fact | None:
        """The next fact whose turn has come; after the end of the run there is none."""
        return self._facts.popleft() if self._facts and self.state.phase is not Phase.DONE else None

    def take_wake(self, now: float) -> float | None:
        """The moment of the wake-up that is due; there is none after it."""
        if self.wake_at is None or self.wake_at > now:
            return None
        moment, self.wake_at = max(self.wake_at, self.state.book.now), None
        return moment

    def record_events(self, events: Sequence[Event]) -> None:
        """Journal events, and pass them to whatever watches the run."""
        self._journal.append(events)
        self._unflushed = True
        for listener in self.listeners:
            listener(events)

    def note(self, text: str, level: Level = "warning") -> None:
        """A sentence that people should find in the journal."""
        self._journal.remark(text)
        self.log(level, text)
        self._unflushed = True

    def flush(self, *, durable: bool = True) -> None:
        """Everything that was decided is on the disk when this returns."""
        if self._unflushed and durable:
            self._journal.flush()
        self._unflushed = False
