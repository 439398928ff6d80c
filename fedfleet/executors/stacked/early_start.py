"""Training that begins before its jobs are folded: an accelerator works while the host is still busy with other things."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from fedfleet.core.parts import Job
from fedfleet.executors.client_half import PreparedJob, TrainedStack
from fedfleet.executors.stacked.cohort import train_stacks
from fedfleet.executors.stacked.placement import Place

Stacks = Iterator[tuple[list[int], list[PreparedJob], TrainedStack]]


@dataclass(slots=True)
class EarlyStart:
    """Jobs whose first stack is under way; `counted` are the samples that the place had counted before."""

    jobs: Sequence[Job]
    stacks: Stacks
    counted: tuple[int, int]


def begin(place: Place, jobs: Sequence[Job]) -> EarlyStart | None:
    """Start the first stack of these jobs. What fails now fails again, and is reported, when the jobs are folded."""
    counted = place.real, place.computed
    stacks = train_stacks(place, jobs)
    try:
        first = next(stacks, None)
    except Exception:
        place.real, place.computed = counted
        return None
    return None if first is None else EarlyStart(jobs, chain([first], stacks), counted)


def take_stacks(place: Place, early: EarlyStart | None, jobs: Sequence[Job]) -> Stacks:
    """The stacks of these jobs: those that have begun, if they are theirs, else from the beginning."""
    if early is not None and early.jobs is jobs:
        return early.stacks
    if early is not None:
        place.real, place.computed = early.counted
    return train_stacks(place, jobs)
