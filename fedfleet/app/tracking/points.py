"""From the events of a run to what tracking tools draw: a point for every round that ended and for every evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from fedfleet.core.events import Evaluated, Event, ModelCommitted, RoundFailed, TaskArrived, TasksSent


@dataclass(frozen=True, slots=True)
class Point:
    """Numbers at a moment: the round (from 1; 0 is before the first), virtual seconds, and values by name. `what` happened."""

    what: str
    round: int
    seconds: float
    values: dict[str, float] = field(default_factory=dict[str, float])


Follow = Callable[[Sequence[Event]], Iterator[Point]]


def follower() -> Follow:
    """A function that takes events as they come and gives their points; it knows where the round began.

    Who begins to listen in the middle of a run gets the points from there on.
    """
    round_number = 0
    round_start: float | None = None
    down = up = 0.0

    def follow(events: Sequence[Event]) -> Iterator[Point]:
        nonlocal round_number, round_start, down, up
        for event in events:
            round_start = event.time if round_start is None else round_start
            match event:
                case TasksSent():
                    down += float(event.bytes_down.sum())
                case TaskArrived():
                    up += event.bytes_up
                case ModelCommitted() | RoundFailed():
                    round_number = event.round + 1
                    traffic = {"round_seconds": event.time - round_start, "bytes_down": down, "bytes_up": up}
                    round_start, down, up = event.time, 0.0, 0.0
                    yield _round_point(event, traffic)
                case Evaluated() if event.total:
                    yield Point("evaluated", round_number, event.time, _scores(event))
                case _:
                    pass

    return follow


def _round_point(event: ModelCommitted | RoundFailed, traffic: dict[str, float]) -> Point:
    if isinstance(event, RoundFailed):
        return Point("round failed", event.round + 1, event.time, {**traffic, "reports": 0.0})
    loss = {} if math.isnan(event.loss) else {"train_loss": float(event.loss)}
    return Point("round", event.round + 1, event.time, {**traffic, "reports": float(event.folded), **loss})


def _scores(event: Evaluated) -> dict[str, float]:
    people = event.unseen
    unseen = {} if people is None or not people.total else {"accuracy_unseen": people.correct / people.total}
    return {"accuracy": event.correct / event.total, "loss": float(event.loss), **unseen}
