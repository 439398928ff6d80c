"""Candidates: an ask is answered with whoever is there when the declared fleet is, or when patience ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedfleet.core.events import CandidatesSeen
from fedfleet.engine.candidates import clients_asked_this_round
from fedfleet.engine.state import Phase
from fedfleet.network.rules.presence import ask_ready, available_clients, patience_end
from fedfleet.simulation.rosters import roster_of, unavailable_clients

if TYPE_CHECKING:
    from fedfleet.network.server.server_loop import ServerLoop


def try_answer_ask(server: ServerLoop) -> bool:
    """Answer the ask that is out, if it is time; whether it was."""
    if not server.is_asking() or server.state.phase is not Phase.OPEN:
        return False
    now, state = server.now(), server.state
    if server.asked_at is None:
        server.asked_at = now
    busy = unavailable_clients(server.plan, state, server.busy).copy()
    if state.others:
        busy[clients_asked_this_round(state)] = True
    present = server.presence.present(now)
    idle = available_clients(present, busy)
    if not len(idle) and not (busy & ~present).any() and not state.next_task:
        server.asked_at = now  # nobody has come yet: patience begins with the first
    ready = ask_ready(
        present=len(idle), busy=int(busy.sum()), declared=server.options.devices, at_least=state.at_least,
        asked_at=server.asked_at, now=now, patience=server.options.patience,
    )  # fmt: skip
    if ready is None:
        return False
    if ready.short:
        available = len(idle) + int(busy.sum())
        server.warn(
            f"round {state.book.round} was asked of {available} of the {server.options.devices} declared "
            f"devices: {ready.short} had "
            f"not come after {server.options.patience:g} s of patience"
        )
    server.asked_at = None
    server.react(CandidatesSeen(now, roster_of(server.plan, server.world, state, idle.astype(np.int64))))
    return True


def ask_deadline(server: ServerLoop) -> float | None:
    """When the patience with an ask that is out ends; None: none is out, or patience decides nothing any more."""
    if not server.is_asking() or server.asked_at is None:
        return None
    return patience_end(asked_at=server.asked_at, now=server.now(), patience=server.options.patience)
