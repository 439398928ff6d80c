"""How rounds went: who had to be asked again, and which rounds came to nothing after people had worked for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fedfleet.core.events import Event, PaceSet, RoundFailed, TasksSent


def rebroadcasts(log: Iterable[Event]) -> int:
    """How often clients were asked beyond the first time in a round; policies without rounds do so all the time."""
    waves = Counter(e.round for e in log if isinstance(e, TasksSent))
    return sum(n - 1 for n in waves.values())


def abandoned_rounds(log: Iterable[Event]) -> int:
    """Rounds that failed after tasks had been sent in them."""
    rounds_with_tasks: set[int] = set()
    count = 0
    for event in log:
        if isinstance(event, TasksSent):
            rounds_with_tasks.add(event.round)
        elif isinstance(event, RoundFailed):
            count += event.round in rounds_with_tasks
    return count


def timelines(log: Iterable[Event]) -> dict[str, list[list[float]]]:
    """What a policy shows of its memory, by name: the moments at which it changed, and the seconds that held from then on.

    >>> timelines([PaceSet(0.0, "t_o", 60.0), PaceSet(80.0, "t_o", 120.0)])
    {'t_o': [[0.0, 60.0], [80.0, 120.0]]}
    """
    result: dict[str, list[list[float]]] = {}
    for event in log:
        if isinstance(event, PaceSet):
            result.setdefault(event.name, []).append([event.time, event.seconds])
    return result
