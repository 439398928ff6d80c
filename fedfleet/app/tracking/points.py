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
    at = 0
    began: float | None = None
    down = up = 0.0

    def follow(events: Sequence[Event]) -> Iterator[Point]:
        nonlocal at, began, down, up
        for event in events:
            began = event.time if began is None else began
            match event:
                case TasksSent():
                    down += float(event.bytes_down.sum())
                case TaskArrived():
                    up += event.bytes_up
                case ModelCommitted() | RoundFailed():
                    at = event.round + 1
                    moved = {"round_seconds": event.time - began, "bytes_down": down, "bytes_up": up}
                    began, down, up = event.time, 0.0, 0.0
                    yield _ended(event, moved)
                case Evaluated() if event.total:
                    yield Point("evaluated", at, event.time, _scores(event))
                case _:
                    pass

    return follow


def _ended(event: ModelCommitted | RoundFailed, moved: dict[str, float]) -> Point:
    if isinstance(event, RoundFailed):
        return Point("round failed", event.round + 1, event.time, {**moved, "reports": 0.0})
    loss = {} if math.isnan(event.loss) else {"train_loss": float(event.loss)}
    return Point("round", event.round + 1, event.time, {**moved, "reports": float(event.folded), **loss})


def _scores(event: Evaluated) -> dict[str, float]:
    new = event.unseen
    unseen = {} if new is None or not new.total else {"accuracy_unseen": new.correct / new.total}
    return {"accuracy": event.correct / event.total, "loss": float(event.loss), **unseen}
