"""How rounds went: who had to be asked again, and which rounds came to nothing after people had worked for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fedfleet.core.events import Event, RoundFailed, TasksSent


def rebroadcasts(log: Iterable[Event]) -> int:
    """How often clients were asked beyond the first time in a round; policies without rounds do so all the time."""
    waves = Counter(e.round for e in log if isinstance(e, TasksSent))
    return sum(n - 1 for n in waves.values())


def abandoned_rounds(log: Iterable[Event]) -> int:
    """Rounds that failed after tasks had been sent in them."""
    asked: set[int] = set()
    found = 0
    for event in log:
        if isinstance(event, TasksSent):
            asked.add(event.round)
        elif isinstance(event, RoundFailed):
            found += event.round in asked
    return found
