"""Candidates: an ask is answered with whoever is there when the declared fleet is, or when patience ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedfleet.core.events import CandidatesSeen
from fedfleet.engine.candidates import asked_in_this_round
from fedfleet.engine.state import Phase
from fedfleet.network.rules.presence import ask_ready, askable, look_again
from fedfleet.simulation.reachability import engaged
from fedfleet.simulation.rosters import roster_of

if TYPE_CHECKING:
    from fedfleet.network.server.server_loop import Processor


def answered(of: Processor) -> bool:
    """Answer the ask that is out, if it is time; whether it was."""
    if not of.asking() or of.state.phase is not Phase.OPEN:
        return False
    now, state = of.now(), of.state
    if of.asked_at is None:
        of.asked_at = now
    busy = engaged(of.plan, state, of.busy).copy()
    if state.others:
        busy[asked_in_this_round(state)] = True
    present = of.presence.present(now)
    idle = askable(present, busy)
    if not len(idle) and not (busy & ~present).any() and not state.next_task:
        of.asked_at = now  # nobody has come yet: patience begins with the first
    ready = ask_ready(
        present=len(idle), busy=int(busy.sum()), declared=of.options.devices, at_least=state.at_least,
        asked_at=of.asked_at, now=now, patience=of.options.patience,
    )  # fmt: skip
    if ready is None:
        return False
    if ready.short:
        here = len(idle) + int(busy.sum())
        of.remark(
            f"round {state.book.round} was asked of {here} of the {of.options.devices} declared devices: {ready.short} had "
            f"not come after {of.options.patience:g} s of patience"
        )
    of.asked_at = None
    of.react(CandidatesSeen(now, roster_of(of.plan, of.world, state, idle.astype(np.int64))))
    return True


def ask_ends(of: Processor) -> float | None:
    """When the patience with an ask that is out ends; None: none is out, or patience decides nothing any more."""
    if not of.asking() or of.asked_at is None:
        return None
    return look_again(asked_at=of.asked_at, now=of.now(), patience=of.options.patience)
