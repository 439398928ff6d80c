"""Taking up a server that was killed: the newest good checkpoint, and the journal after it, replayed to the last fact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedfleet.core.commands import Command, Gather
from fedfleet.core.errors import FedFleetError, RunFailed
from fedfleet.core.events import Event, ReportsGathered
from fedfleet.core.parts import Plan
from fedfleet.core.records import Ints
from fedfleet.core.sources import World
from fedfleet.engine.checkpoint import thaw
from fedfleet.engine.coordinator import begin
from fedfleet.engine.replay import replay
from fedfleet.engine.state import RunState
from fedfleet.simulation.checkpoints import checkpoint_files
from fedfleet.store import journal as journals
from fedfleet.store.aggregates import load_aggregate
from fedfleet.store.files import Damaged, load_tree
from fedfleet.store.journal import Journal
from fedfleet.store.journal_rows import decode


@dataclass(frozen=True, slots=True)
class Recovered:
    """Where a served run goes on, and what was damaged on the way."""

    state: RunState
    gatherings: int
    memory_task: Ints
    begun: bool
    damages: tuple[str, ...] = ()


@dataclass(slots=True)
class _Place:
    """A place in the journal from which its rest can be replayed."""

    state: RunState | None  # None: the beginning
    position: int
    gatherings: int
    memory_task: Ints


def recovered(plan: Plan, world: World, folder: Path) -> tuple[Journal, Recovered]:
    """The journal, ready to go on, and the state at its last fact; or at the last good checkpoint, if what followed is damaged."""
    path = folder / "run.db"
    held = journals.checked(path)
    damages = [f"{path}: {held.fault}"] if held.fault else []
    places = _places(plan, folder, held.links, damages)
    if held.fault:
        sound = max(held.links, default=0)
        journal = journals.salvaged(path, sound, held.links)
    else:
        journal = journals.reopen(path)
        journal.truncate(held.rows)  # nothing goes: it takes digest and chain up where they stand
    rows = list(journals.rows_of(path))
    for place in places:
        events = list(decode(iter(rows[place.position :])))
        try:
            return journal, _replayed(plan, world, folder, place, events, tuple(damages))
        except (FedFleetError, ValueError, KeyError) as wrong:
            damages.append(f"the journal after row {place.position} cannot be followed ({wrong})")
    place = places[0]
    journal.truncate(place.position)
    damages.append(f"the run goes on from {f'row {place.position}' if place.position else 'its beginning'}")
    return journal, _replayed(plan, world, folder, place, [], tuple(damages))


def _places(plan: Plan, folder: Path, links: Mapping[int, str], damages: list[str]) -> list[_Place]:
    """Whence the journal can be followed, newest first; the beginning is always there."""
    found: list[_Place] = []
    for path in checkpoint_files(folder):
        try:
            arrays, meta = load_tree(path)
            if links.get(int(meta["position"])) != meta["link"]:
                raise Damaged(f"{path} does not belong to the journal as it is on the disk")
            state = thaw(meta["state"], arrays)
            found.append(
                _Place(state, int(meta["position"]), int(meta["gatherings"]), arrays["wire/memory_task"].copy())
            )
        except (RunFailed, ValueError, KeyError, TypeError, IndexError) as wrong:
            damages.append(str(wrong))
    return [*found, _Place(None, 0, 0, np.full(plan.clients, -1, np.int64))]


def _replayed(
    plan: Plan, world: World, folder: Path, place: _Place, events: list[Event], damages: tuple[str, ...]
) -> Recovered:
    gatherings, memory_task = place.gatherings, place.memory_task.copy()

    def regather(command: Gather, fact: ReportsGathered) -> ReportsGathered:
        nonlocal gatherings
        kept = load_aggregate(plan, folder, command.server, gatherings, fact.time)
        gatherings += 1
        clients = {context.task: context.client for context in command.contexts}
        for task in kept.tasks.tolist():
            memory_task[clients[task]] = task
        return kept

    if not events and place.state is None:
        return Recovered(begin(plan).state, 0, memory_task, False, damages)
    done = replay(plan, events, world.keys, world.data.sizes, regather, _nothing, start=place.state)
    return Recovered(done.state, gatherings, memory_task, True, damages)


def _nothing(command: Command) -> None:
    """What was commanded then was carried out then."""
    del command
