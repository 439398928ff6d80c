"""What people want to know of a server: where it is, and what it waits for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from fedfleet.engine.state import Phase

if TYPE_CHECKING:
    from fedfleet.runtime.wire.processor import Processor

_SHOWN = 3  # clients that a sentence names


def status(of: Processor) -> dict[str, Any]:
    """The contract of `fedfleet status`."""
    book = of.state.book
    return {
        "run": of.served.name, "round": book.round, "version": book.version,
        "devices_online": int(of.presence.present(of.now()).sum()), "running": book.running,
        "waiting_for": waiting_for(of), "uptime_seconds": time.monotonic() - of.began,
    }  # fmt: skip


def waiting_for(of: Processor) -> str:
    """One sentence: what has to happen before the run goes on."""
    state, book = of.state, of.state.book
    if of.ended:
        return f"nothing: the run is over ({of.ended})"
    if state.phase is Phase.GATHERING:
        return f"model {book.version + 1} to be made"
    if state.phase in (Phase.EVALUATING, Phase.ENDING):
        return f"model {book.version} to be judged"
    if of.asking():
        here = int((of.presence.present(of.now()) | of.busy).sum())
        return f"devices: {here} of {of.options.devices} are here"
    late = sorted({int(w.asked.clients[t - w.first]) for t, w in state.running.items()})[: _SHOWN + 1]
    named = ", ".join(map(str, late[:_SHOWN])) + (" and others" if len(late) > _SHOWN else "")
    return f"{book.running} reports: of client{'s' if len(late) > 1 else ''} {named}" if late else "the clock"
