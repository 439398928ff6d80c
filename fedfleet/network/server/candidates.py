"""Candidates: which devices are there and idle. An ask is answered when the declared fleet is there, or when patience ends."""

from __future__ import annotations

import numpy as np

from fedfleet.core.events import CandidatesSeen
from fedfleet.core.parts import Plan
from fedfleet.core.records import Bools, Floats, Ints
from fedfleet.core.sources import World
from fedfleet.engine.candidates import clients_asked_this_round
from fedfleet.engine.state import Phase, RunState
from fedfleet.network.rules.presence import Presence, ask_ready, available_clients, patience_end
from fedfleet.network.server.effects import Effects, Note, React
from fedfleet.network.server.options import ServeOptions
from fedfleet.simulation.rosters import roster_of, unavailable_clients


class Candidates:
    """Presence of devices, which of them have a task, and since when an ask for candidates is out."""

    def __init__(self, plan: Plan, world: World, options: ServeOptions) -> None:
        self._plan, self._world, self._options = plan, world, options
        self._presence = Presence(plan.clients, hold=options.hold_seconds)
        self.busy = np.zeros(plan.clients, np.bool_)
        self._asked_at: float | None = None

    def on_calls(self, clients: Ints, return_seconds: Floats, now: float) -> None:
        """These clients called; `return_seconds`: when each was told to come back, 0 while its call is held."""
        self._presence.record_calls(clients, return_seconds, now)

    def on_departures(self, clients: Ints) -> None:
        """These hung up or left."""
        self._presence.record_departures(clients)

    def on_sent(self, clients: Ints) -> None:
        """These have a task."""
        self.busy[clients] = True

    def on_task_end(self, clients: Ints | int) -> None:
        """The tasks of these ended."""
        self.busy[clients] = False

    def present(self, now: float) -> Bools:
        """The clients that are there."""
        return self._presence.present(now)

    def idle(self, now: float) -> Ints:
        """The clients that are there and have no task."""
        return available_clients(self.present(now), self.busy).astype(np.int64)

    def on_ask(self, now: float) -> None:
        """The coordinator asks for candidates."""
        self._asked_at = now

    def try_answer(self, state: RunState, now: float) -> Effects:
        """The answer to the ask that is out, if it is time."""
        if state.phase is not Phase.OPEN:
            return []
        if self._asked_at is None:
            self._asked_at = now
        busy = unavailable_clients(self._plan, state, self.busy).copy()
        if state.others:
            busy[clients_asked_this_round(state)] = True
        present = self.present(now)
        idle = available_clients(present, busy)
        if not len(idle) and not (busy & ~present).any() and not state.next_task:
            # No device has come yet: patience begins with the first.
            self._asked_at = now
        declared, patience = self._options.devices, self._options.patience
        ready = ask_ready(
            present=len(idle), busy=int(busy.sum()), declared=declared, at_least=state.at_least,
            asked_at=self._asked_at, now=now, patience=patience,
        )  # fmt: skip
        if ready is None:
            return []
        effects: Effects = []
        if ready.short:
            effects.append(
                Note(
                    f"round {state.book.round} was asked of {len(idle) + int(busy.sum())} of the {declared} declared "
                    f"devices: {ready.short} had not come after {patience:g} s of patience"
                )
            )
        self._asked_at = None
        roster = roster_of(self._plan, self._world, state, idle.astype(np.int64))
        return [*effects, React(CandidatesSeen(now, roster))]

    def deadline(self, now: float) -> float | None:
        """When the patience with the ask that is out ends; None: patience decides nothing any more."""
        if self._asked_at is None:
            return None
        return patience_end(asked_at=self._asked_at, now=now, patience=self._options.patience)
