"""What people want to know of a server: what it waits for."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from fedfleet.engine.state import Phase

if TYPE_CHECKING:
    from fedfleet.network.server.server_loop import Processor

_SHOWN = 3  # clients that a sentence names


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
    # Any few of them: to sort a hundred thousand would hold up the loop.
    late = [int(w.asked.clients[t - w.first]) for t, w in islice(state.running.items(), _SHOWN + 1)]
    named = ", ".join(map(str, sorted(late[:_SHOWN]))) + (" and others" if len(late) > _SHOWN else "")
    return f"{book.running} reports: of client{'s' if len(late) > 1 else ''} {named}" if late else "the clock"
