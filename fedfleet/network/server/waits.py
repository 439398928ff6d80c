"""What people want to know of a server: what it waits for."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from fedfleet.engine.state import Phase

if TYPE_CHECKING:
    from fedfleet.network.server.server_loop import ServerLoop

_SHOWN = 3  # clients that a sentence names


def waiting_for(server: ServerLoop) -> str:
    """One sentence: what has to happen before the run goes on."""
    state, book = server.state, server.state.book
    if server.end_reason:
        return f"nothing: the run is over ({server.end_reason})"
    if state.phase is Phase.GATHERING:
        return f"model {book.version + 1} to be made"
    if state.phase in (Phase.EVALUATING, Phase.ENDING):
        return f"model {book.version} to be judged"
    if server.is_asking():
        available = int((server.presence.present(server.now()) | server.busy).sum())
        return f"devices: {available} of {server.options.devices} are here"
    # Any few of them: to sort a hundred thousand would hold up the loop.
    late = [int(w.assignments.clients[t - w.first]) for t, w in islice(state.running.items(), _SHOWN + 1)]
    names = ", ".join(map(str, sorted(late[:_SHOWN]))) + (" and others" if len(late) > _SHOWN else "")
    return f"{book.running} reports: of client{'s' if len(late) > 1 else ''} {names}" if late else "the clock"
