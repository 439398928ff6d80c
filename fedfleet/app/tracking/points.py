"""From the events of a run to what tracking tools draw: a point for every round that ended and for every evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from fedfleet.core.events import Evaluated, Event, ModelCommitted, RoundFailed
from fedfleet.measure.run_progress import FAILED, Evaluation, Progress, Round

# What an evaluation is written under, so that a person's own measure of that name has another one.
SCORE_NAMES = ("accuracy", "loss", "accuracy_unseen")
EVALUATED = "evaluated"


@dataclass(frozen=True, slots=True)
class Point:
    """Numbers at a moment: the round (from 1; 0 is before the first), virtual seconds, and values by name. `what` happened."""

    what: str
    round: int
    seconds: float
    values: dict[str, float] = field(default_factory=dict[str, float])


Follow = Callable[[Sequence[Event]], Iterator[Point]]


def follower() -> Follow:
    """A function that takes events as they come and gives their points.

    A listener that begins in the middle of a run gets the points from there on.
    """
    progress = Progress()

    def follow(events: Sequence[Event]) -> Iterator[Point]:
        for event in events:
            progress.on(event)
            match event:
                case ModelCommitted() | RoundFailed():
                    loss = event.loss if isinstance(event, ModelCommitted) else math.nan
                    yield _round_point(progress.rounds[-1], loss)
                case Evaluated() if event.total:
                    yield Point(EVALUATED, progress.round, event.time, _scores(progress.evaluations[-1]))
                case _:
                    pass

    return follow


def _round_point(ended: Round, loss: float) -> Point:
    values = {
        "round_seconds": ended.closed - ended.opened,
        "bytes_down": ended.bytes_down,
        "bytes_up": ended.bytes_up,
        "reports": float(ended.used),
    }
    train_loss = {} if math.isnan(loss) else {"train_loss": float(loss)}
    what = "round failed" if ended.outcome == FAILED else "round"
    return Point(what, ended.number + 1, ended.closed, values | train_loss)


def _scores(evaluation: Evaluation) -> dict[str, float]:
    """The score, the loss, and the measures of the kind of task and of the person; one that has a name of ours is `own.NAME`."""
    held_out = evaluation.unseen
    unseen = {} if held_out is None or not held_out.total else {"accuracy_unseen": held_out.correct / held_out.total}
    scores = {"accuracy": evaluation.accuracy, "loss": float(evaluation.loss), **unseen}
    known = {name: value for name, value in evaluation.measures.items() if math.isfinite(value)}
    return scores | {f"own.{name}" if name in SCORE_NAMES else name: value for name, value in known.items()}
