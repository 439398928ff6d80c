"""The run's state and its journal: facts are stepped one by one, and what follows from them is journalled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from fedfleet.core.commands import Command
from fedfleet.core.events import Event, Fact, Outcome
from fedfleet.core.parts import Plan
from fedfleet.engine.coordinator import step
from fedfleet.engine.state import Phase, RunState
from fedfleet.network.operations.logs import Level, Log, no_log
from fedfleet.store.journal import Journal

EventListener = Callable[[Sequence[Event]], None]


class JournaledRun:
    """The same coordinator as in a simulation. What it decides may leave the server after `flush`, not before."""

    def __init__(self, plan: Plan, journal: Journal, state: RunState, on_events: EventListener | None) -> None:
        self.plan, self.state = plan, state
        self.on_events = on_events
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
        if self.on_events is not None:
            self.on_events(events)

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
