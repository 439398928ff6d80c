"""Auditing a run: replay its journal and verify each committed model by its content hash."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
from safetensors import SafetensorError

from fedfleet.core import folding
from fedfleet.core.commands import Command, Forget, Gather, Send
from fedfleet.core.errors import RunFailed
from fedfleet.core.events import Event, ReportsGathered
from fedfleet.core.parts import Executor, Plan, World
from fedfleet.core.records import Rejected, Report, ServerState
from fedfleet.engine.replay import Replayed, replay
from fedfleet.runtime.folder import load_tree, save_tree
from fedfleet.runtime.gather import gather, jobs_for
from fedfleet.runtime.memory import ClientMemory


@dataclass(frozen=True, slots=True)
class Audit:
    """What a replay found, and where its aggregates came from."""

    replayed: Replayed
    source: str


def audit(plan: Plan, world: World, execute: Executor, events: Iterable[Event], folder: Path | None = None) -> Audit:
    """Replay the events; aggregates come from the folder where they were kept, else from training again inline."""
    kept = folder is not None and (folder / "aggregates").is_dir()
    memory = ClientMemory()
    numbers = count()
    held: dict[int, Report] = {}
    eager = plan.algorithm.priced_by_value and not kept

    def regather(command: Gather, now: float) -> ReportsGathered:
        if kept and folder is not None:
            return load_aggregate(plan, folder, command.server, next(numbers), now)
        reports = [held.pop(task) for task in command.tasks] if eager else None
        return gather(plan, world, execute, memory, command, now, reports)

    def carry(command: Command) -> None:
        if isinstance(command, Send):
            memory.lend(command.wave)
        if eager and isinstance(command, Send):  # as the simulation did: edges are weighed against all of their wave
            wave = command.wave
            tasks = range(wave.first, wave.first + len(wave))
            jobs = jobs_for(plan, world, memory, tasks, [wave] * len(wave))
            held.update((report.task, report) for report in execute.train(jobs))
        if isinstance(command, Forget):
            for task in command.tasks.tolist():
                memory.take_back(task)
                held.pop(task, None)

    found = replay(plan, events, world.keys, world.data.sizes, regather, carry)
    return Audit(found, "kept aggregates" if kept else "training again")


def keep_aggregate(folder: Path, number: int, fact: ReportsGathered) -> None:
    """Keep what the n-th gathering brought, so that a replay needs no client."""
    (folder / "aggregates").mkdir(exist_ok=True)
    tree = {} if fact.aggregate is None else folding.save(fact.aggregate)
    meta = {"tasks": fact.tasks.tolist(), "rejected": [[r.task, r.client, r.reason] for r in fact.rejected]}
    save_tree(_path(folder, number), tree, meta)


def load_aggregate(plan: Plan, folder: Path, server: ServerState, number: int, now: float) -> ReportsGathered:
    """What the n-th gathering brought, as it was kept."""
    try:
        tree, meta = load_tree(_path(folder, number))
    except (OSError, SafetensorError) as wrong:
        raise RunFailed(f"the aggregate {_path(folder, number)} is missing or damaged: {wrong}") from None
    tasks = np.array(meta["tasks"], np.int64)
    rejected = tuple(Rejected(task, client, reason) for task, client, reason in meta["rejected"])
    return ReportsGathered(
        now, folding.load(plan.algorithm.fold, server, tree) if len(tasks) else None, tasks, {}, rejected
    )


def _path(folder: Path, number: int) -> Path:
    return folder / "aggregates" / f"{number:08d}.safetensors"
