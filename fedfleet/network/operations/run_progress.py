"""How far a run has come, by its events as they happen; a resumed run is followed from the rows of its journal."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedfleet.core.events import (
    Evaluated,
    Event,
    ModelCommitted,
    ReportRejected,
    ReportUnwanted,
    RoundFailed,
    RunEnded,
    TaskArrived,
    TaskLost,
    TasksDropped,
    TasksSent,
)

# What can become of a task, as in measure.tasks; beside them `late` and `again`: reports that came when nobody waited for them.
FATES = ("folded", "rejected", "wasted", "lost", "dropped", "late", "again")


@dataclass(slots=True)
class Progress:
    """How far a run has come. Changed in place: thousands of events a second go through it."""

    round: int = 0
    version: int = 0
    commits: int = 0
    failed_rounds: int = 0
    running: int = 0  # tasks that are out
    arrived: int = 0  # reports that are here and not folded yet
    lost: int = 0  # tasks that will not come back, since the last round ended
    fates: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FATES, 0))
    began_at: float | None = None  # of the run's clock, when tasks of this round first went out
    committed_at: float | None = None
    accuracy: float | None = None
    accuracy_version: int = 0
    ended: str = ""


def update_progress(progress: Progress, event: Event) -> None:
    """Note what an event says; those that say nothing about progress are passed over."""
    match event:
        case TasksSent():
            if progress.began_at is None or event.round != progress.round:
                progress.began_at = event.time
            progress.round, progress.version = event.round, event.version
            progress.running += len(event.clients)
        case TaskArrived():
            progress.running -= 1
            progress.arrived += 1
        case TaskLost():
            progress.running -= 1
            progress.lost += 1
            progress.fates["lost"] += 1
        case TasksDropped():
            progress.running -= len(event.tasks)
            progress.fates["dropped"] += len(event.tasks)
        case ReportRejected():
            progress.fates["rejected"] += 1
            progress.arrived -= 1
        case ReportUnwanted():
            progress.fates["late" if event.reason == "late" else "again"] += 1
        case ModelCommitted():
            progress.commits += 1
            progress.version, progress.committed_at = event.version, event.time
            progress.fates["folded"] += event.folded
            progress.arrived -= event.folded  # what came while these were folded waits for the next model
            _next_round(progress, event.round)
        case RoundFailed():
            progress.failed_rounds += 1
            _waste_arrivals(progress)
            _next_round(progress, event.round)
        case Evaluated():
            if event.total and event.version >= progress.accuracy_version:
                progress.accuracy, progress.accuracy_version = event.correct / event.total, event.version
        case RunEnded():
            progress.ended = event.reason
            _waste_arrivals(progress)
        case _:
            pass


def _waste_arrivals(progress: Progress) -> None:
    """What is here will not be folded."""
    progress.fates["wasted"] += progress.arrived
    progress.arrived = 0


def _next_round(progress: Progress, ended_round: int) -> None:
    progress.round = ended_round + 1
    progress.lost = 0
    progress.began_at = None
