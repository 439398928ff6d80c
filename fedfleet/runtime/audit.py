"""Auditing a run: replay its journal and verify each committed model by its content hash."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from safetensors import SafetensorError

from fedfleet.core import folding
from fedfleet.core.commands import Command, Evaluate, FindCandidates, Finish, Forget, Gather, Probe, Send, WakeAt
from fedfleet.core.errors import RunFailed
from fedfleet.core.events import Event, ReportsGathered
from fedfleet.core.parts import Executor, Plan, World
from fedfleet.core.records import Rejected, Report, ServerState
from fedfleet.engine.replay import Replayed, replay
from fedfleet.runtime.acting import carry_out
from fedfleet.runtime.folder import load_tree, save_tree
from fedfleet.runtime.gather import gather, jobs_for
from fedfleet.runtime.memory import ClientMemory

_AGGREGATE, _STATS = "aggregate/", "stats/"  # how the arrays of a kept gathering are named


@dataclass(frozen=True, slots=True)
class Audit:
    """What a replay found, and where its aggregates came from."""

    replayed: Replayed
    source: str


@dataclass(slots=True)
class Auditor:
    """Carries out again what decides an aggregate, and leaves the rest to the record."""

    plan: Plan
    world: World
    execute: Executor
    kept: Path | None  # the folder with the aggregates, where they were kept
    gathered: int = 0
    memory: ClientMemory = field(default_factory=ClientMemory)
    held: dict[int, Report] = field(default_factory=dict)

    @property
    def eager(self) -> bool:
        """Whether reports are trained when they are sent, as the simulation did."""
        return self.plan.algorithm.priced_by_value and self.kept is None

    def find(self, command: FindCandidates) -> None:
        """The record says who was picked."""

    def probe(self, command: Probe) -> None:
        """The record says what was answered."""

    def wake(self, command: WakeAt) -> None:
        """The record says when timers fired."""

    def evaluate(self, command: Evaluate) -> None:
        """The record says how the model did."""

    def finish(self, command: Finish) -> None:
        """Nothing is left to do."""

    def gather(self, command: Gather) -> None:
        """Replay asks for aggregates itself, with `regather`."""
        raise AssertionError(f"replay gathers {len(command.tasks)} reports itself")

    def send(self, command: Send) -> None:
        """Note what clients remember; edges are weighed against all of their wave, so that it is trained at once."""
        wave = command.wave
        self.memory.lend(wave)
        if self.eager:
            tasks = range(wave.first, wave.first + len(wave))
            jobs = jobs_for(self.plan, self.world, self.memory, tasks, [wave] * len(wave))
            self.held.update((report.task, report) for report in self.execute.train(jobs))

    def forget(self, command: Forget) -> None:
        """Dropped tasks leave no report, and what their clients remember stays as it was."""
        for task in command.tasks.tolist():
            self.memory.take_back(task)
            self.held.pop(task, None)

    def regather(self, command: Gather, now: float) -> ReportsGathered:
        """The aggregate of a commit: as it was kept, or trained again."""
        number, self.gathered = self.gathered, self.gathered + 1
        if self.kept is not None:
            return load_aggregate(self.plan, self.kept, command.server, number, now)
        reports = [self.held.pop(task) for task in command.tasks] if self.eager else None
        return gather(self.plan, self.world, self.execute, self.memory, command, now, reports)


def audit(plan: Plan, world: World, execute: Executor, events: Iterable[Event], folder: Path | None = None) -> Audit:
    """Replay the events; aggregates come from the folder where they were kept, else from training again inline."""
    kept = folder if folder is not None and (folder / "aggregates").is_dir() else None
    auditor = Auditor(plan, world, execute, kept)

    def carry(command: Command) -> None:
        carry_out(auditor, command)

    found = replay(plan, events, world.keys, world.data.sizes, auditor.regather, carry)
    return Audit(found, "training again" if kept is None else "kept aggregates")


def keep_aggregate(folder: Path, number: int, fact: ReportsGathered) -> None:
    """Keep what the n-th gathering brought, so that a replay needs no client: the aggregate, and the statistics."""
    (folder / "aggregates").mkdir(exist_ok=True)
    tree = {} if fact.aggregate is None else folding.save(fact.aggregate)
    named = {f"{_AGGREGATE}{n}": v for n, v in tree.items()} | {f"{_STATS}{n}": v for n, v in fact.stats.items()}
    meta = {"tasks": fact.tasks.tolist(), "rejected": [[r.task, r.client, r.reason] for r in fact.rejected]}
    save_tree(_path(folder, number), named, meta)


def load_aggregate(plan: Plan, folder: Path, server: ServerState, number: int, now: float) -> ReportsGathered:
    """What the n-th gathering brought, as it was kept."""
    try:
        named, meta = load_tree(_path(folder, number))
    except (OSError, SafetensorError) as wrong:
        raise RunFailed(f"the aggregate {_path(folder, number)} is missing or damaged: {wrong}") from None
    tasks = np.array(meta["tasks"], np.int64)
    rejected = tuple(Rejected(task, client, reason) for task, client, reason in meta["rejected"])
    tree, stats = (
        {n.removeprefix(prefix): v for n, v in named.items() if n.startswith(prefix)} for prefix in (_AGGREGATE, _STATS)
    )
    return ReportsGathered(
        now, folding.load(plan.algorithm.fold, server, tree) if len(tasks) else None, tasks, stats, rejected
    )


def _path(folder: Path, number: int) -> Path:
    return folder / "aggregates" / f"{number:08d}.safetensors"
