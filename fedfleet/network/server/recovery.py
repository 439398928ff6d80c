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
from fedfleet.store.files import DamagedFile, load_tree
from fedfleet.store.journal import Journal
from fedfleet.store.journal_rows import decode


@dataclass(frozen=True, slots=True)
class RecoveredRun:
    """Where a served run goes on, and what was damaged on the way."""

    state: RunState
    gatherings: int
    memory_task: Ints
    started: bool
    damages: tuple[str, ...] = ()


@dataclass(slots=True)
class _ReplayStart:
    """A place in the journal from which its rest can be replayed."""

    state: RunState | None  # None: the beginning
    position: int
    gatherings: int
    memory_task: Ints


def recover(plan: Plan, world: World, folder: Path) -> tuple[Journal, RecoveredRun]:
    """The journal, ready to go on, and the state at its last fact; or at the last good checkpoint, if what followed is damaged."""
    path = folder / "run.db"
    check = journals.check_journal(path)
    damages = [f"{path}: {check.fault}"] if check.fault else []
    starts = _replay_starts(plan, folder, check.links, damages)
    if check.fault:
        last_good = max(check.links, default=0)
        journal = journals.salvage(path, last_good, check.links)
    else:
        journal = journals.reopen(path)
        journal.truncate(check.rows)  # nothing goes: it takes digest and chain up where they stand
    rows = list(journals.rows_of(path))
    for start in starts:
        events = list(decode(iter(rows[start.position :])))
        try:
            return journal, _replay_from(plan, world, folder, start, events, tuple(damages))
        except (FedFleetError, ValueError, KeyError) as error:
            damages.append(f"the journal after row {start.position} cannot be followed ({error})")
    start = starts[0]
    journal.truncate(start.position)
    damages.append(f"the run goes on from {f'row {start.position}' if start.position else 'its beginning'}")
    return journal, _replay_from(plan, world, folder, start, [], tuple(damages))


def _replay_starts(plan: Plan, folder: Path, links: Mapping[int, str], damages: list[str]) -> list[_ReplayStart]:
    """Whence the journal can be followed, newest first; the beginning is always there."""
    starts: list[_ReplayStart] = []
    for path in checkpoint_files(folder):
        try:
            arrays, meta = load_tree(path)
            if links.get(int(meta["position"])) != meta["link"]:
                raise DamagedFile(f"{path} does not belong to the journal as it is on the disk")
            state = thaw(meta["state"], arrays)
            starts.append(
                _ReplayStart(state, int(meta["position"]), int(meta["gatherings"]), arrays["wire/memory_task"].copy())
            )
        except (RunFailed, ValueError, KeyError, TypeError, IndexError) as error:
            damages.append(str(error))
    return [*starts, _ReplayStart(None, 0, 0, np.full(plan.clients, -1, np.int64))]


def _replay_from(
    plan: Plan, world: World, folder: Path, start: _ReplayStart, events: list[Event], damages: tuple[str, ...]
) -> RecoveredRun:
    gatherings, memory_task = start.gatherings, start.memory_task.copy()

    def regather(command: Gather, fact: ReportsGathered) -> ReportsGathered:
        nonlocal gatherings
        aggregate = load_aggregate(plan, folder, command.server, gatherings, fact.time)
        gatherings += 1
        clients = {context.task: context.client for context in command.contexts}
        for task in aggregate.tasks.tolist():
            memory_task[clients[task]] = task
        return aggregate

    if not events and start.state is None:
        return RecoveredRun(begin(plan).state, 0, memory_task, False, damages)
    replayed = replay(plan, events, world.keys, world.data.sizes, regather, _ignore_command, start=start.state)
    return RecoveredRun(replayed.state, gatherings, memory_task, True, damages)


def _ignore_command(command: Command) -> None:
    """What was commanded then was carried out then."""
    del command
