"""Runs that advance together: which of them may, and how they are performed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fedfleet.app.runs import Finished, perform
from fedfleet.app.spec import Spec
from fedfleet.core.errors import FedFleetError
from fedfleet.core.events import Event

# Hears of the events of one of the runs, by its place in the list.
WatchOne = Callable[[int, Sequence[Event]], None]


def groups(specs: Sequence[Spec]) -> list[list[int]]:
    """Which runs may advance together, by their places; each is in one group."""
    return [[i] for i in range(len(specs))]


def perform_joined(
    specs: Sequence[Spec], outs: Sequence[Path], *, watch: WatchOne | None = None, resume: bool = True
) -> list[Finished | FedFleetError]:
    """Perform runs of one group, each in its folder; what one of them cannot do is its own answer, and stops no other."""
    found: list[Finished | FedFleetError] = []
    for i, (spec, out) in enumerate(zip(specs, outs, strict=True)):
        try:
            hears = None if watch is None else lambda events, i=i, watch=watch: watch(i, events)
            found.append(perform(spec, out, resume=resume, watch=hears))
        except FedFleetError as wrong:
            found.append(wrong)
    return found
