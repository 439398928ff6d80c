"""Explaining a run folder: where its time went, from its journal, and from its world where only that can tell."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.app.assemble import assemble
from fedfleet.app.runs.run_folder import opened
from fedfleet.app.spec import Spec
from fedfleet.core.errors import BadInput, FedFleetError
from fedfleet.core.events import Event
from fedfleet.measure.attribution.causes import Attribution, RoundTime
from fedfleet.measure.attribution.critical_path import attribution
from fedfleet.measure.attribution.path_cursor import Progress
from fedfleet.measure.attribution.sentences import behind, sentence
from fedfleet.simulation.trips import worked_until
from fedfleet.store.journal import identity_of
from fedfleet.store.seals import kind_of

_BEHIND = 10  # clients that are named for each cause


def explained(folder: Path, *, longest: int = 0) -> dict[str, Any]:
    """Where the time of a run went, as `fedfleet explain` answers; with so many of its `longest` rounds.

    A run that is still going on is explained as far as it is. `counterfactuals` and `shapley` stay empty: they need other runs.
    """
    found, served = attributed_run(folder)
    answer = told(found)
    answer |= {"clock": "real" if served else "virtual", "notes": notes(found, served=served)}
    if longest:
        rounds = sorted(found.rounds, key=lambda r: (-r.seconds, r.round))[:longest]
        answer["longest_rounds"] = [_round(r) for r in rounds]
    return {**answer, "out": str(folder)}


def attributed_run(folder: Path) -> tuple[Attribution, bool]:
    """The books of a run folder, and whether it was served over a real network."""
    spec, events, _ = opened(folder)
    if not events:
        raise BadInput(f"the journal in {folder} is empty, so there is nothing to explain yet")
    return booked(folder, spec, events)


def booked(folder: Path, spec: Spec, events: list[Event]) -> tuple[Attribution, bool]:
    """The same of a folder that was read already."""
    served = kind_of(identity_of(folder / "run.db")) == "served"
    return (attribution(events), True) if served else (simulated(spec, events), False)


def simulated(spec: Spec, events: list[Event]) -> Attribution:
    """The books of a simulated run; its world is built again only if a task has to be cut where a round began."""
    try:
        return attribution(events, progress_of(spec))
    except FedFleetError:  # the world of an own model, or one whose files are gone: then evenly, which the answer says
        return attribution(events)


def progress_of(spec: Spec) -> Progress:
    """How far tasks had come by a time, as the world of this spec says."""
    world = cache(lambda: assemble(spec).world)

    def progress(client: int, sent: float, time: float) -> float:
        return float(worked_until(world().states, np.array([client], np.int64), sent, np.array([time]))[0])

    return progress


def told(found: Attribution) -> dict[str, Any]:
    """The contract of `fedfleet explain`, from the books of a run: causes add up to virtual_seconds."""
    who = {c: dict(list(mine.items())[:_BEHIND]) for c, mine in found.who.items() if mine}
    return {
        "virtual_seconds": found.virtual_seconds,
        "causes": dict(found.causes),
        "counterfactuals": [],
        "shapley": {},
        "sentence": sentence(found),
        "rounds": sum(r.closed for r in found.rounds),
        "ended": found.ended,
        "failures": dict(found.failures),
        "waited_for": {cause: [[c, s] for c, s in mine.items()] for cause, mine in who.items()},
        "behind": {cause: said for cause, mine in found.who.items() if (said := behind(mine, found.causes[cause]))},
        "cutting": found.cutting,
    }


def notes(found: Attribution, *, served: bool) -> list[str]:
    """What whoever reads the figures must know."""
    said: list[str] = []
    if not found.ended:
        said.append("the run has not ended: this is what its journal holds so far")
    if served and found.causes["unknown"] > 0:
        said.append(
            "devices measure fetching and training; how long a report was under way nobody knows, and is unknown"
        )
    if found.cutting == "evenly":
        said.append(
            "tasks that began before the round that waited for them were divided evenly over its time, since nothing says how far "
            "they had come"
        )
    return said


def _round(r: RoundTime) -> dict[str, Any]:
    return {
        "round": r.round,
        "start": r.start,
        "seconds": r.seconds,
        "causes": dict(r.causes),
        "client": None if r.client < 0 else r.client,
        "reason": r.reason or None,
        "closed": r.closed,
    }
