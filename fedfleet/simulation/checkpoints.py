"""Checkpoints: where a run can be taken up again, each tied to the journal by the link that it was made after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedfleet.core.edges import NestedPass
from fedfleet.core.errors import RunFailed
from fedfleet.core.events import ReportUnwanted
from fedfleet.core.parts import Executor, Plan
from fedfleet.core.passes import NO_SETTINGS
from fedfleet.core.records import Wave
from fedfleet.core.sources import World
from fedfleet.engine.checkpoint import freeze, thaw
from fedfleet.engine.state import RunState, open_endings
from fedfleet.simulation.simulator import Simulation, new_simulation, queue_late_report, resume_simulation, train_now
from fedfleet.store.client_memory import DEFAULT_LIMIT, ClientMemory
from fedfleet.store.files import DamagedFile, load_tree, meta_of, save_tree
from fedfleet.store.journal import Journal
from fedfleet.store.noise_source import SEEDED, NoiseSource

_KEPT_FILES = 2  # a torn newest checkpoint still leaves the one before


@dataclass(slots=True)
class Checkpoints:
    """Saves a checkpoint every few commits, after the journal it refers to is on the disk."""

    folder: Path
    journal: Journal
    every: int
    saved_at: int = 0

    def save_if_due(self, sim: Simulation) -> None:
        """Save if it is time."""
        sim.memory.move_to(self.folder)
        version = sim.state.book.version
        if version < self.saved_at + self.every:
            return
        self.journal.flush()
        meta, arrays = freeze(sim.state)
        memory_meta, columns = sim.memory.save()
        arrays |= columns
        # The reports under way that the server does not await: no state knows of them.
        items = [item for _, _, _, item in sorted(sim.queue, key=lambda e: e[:3])]
        late_reports = [[r.time, r.task, r.client, r.bytes_up, r.reason] for r in items if isinstance(r, ReportUnwanted)]
        all_meta = {
            "state": meta,
            "strays": late_reports,
            "struck": sorted(sim.failed_tasks),
            "memory": memory_meta,
            "position": self.journal.position,
            "link": self.journal.link,
        }
        save_tree(self.folder / f"checkpoint-{version:08d}.safetensors", arrays, all_meta)
        self.saved_at = version
        files = checkpoint_files(self.folder)
        for path in files[_KEPT_FILES:]:
            path.unlink()
        if memory_meta:
            sim.memory.release(generation_of(path) for path in files[:_KEPT_FILES])


def checkpoint_files(folder: Path) -> list[Path]:
    """The checkpoints of a run, newest first."""
    return sorted(folder.glob("checkpoint-*.safetensors"), reverse=True)


def generation_of(path: Path) -> int:
    """The file of the clients' memory that a checkpoint refers to; -1: none."""
    return meta_of(path).get("memory", {}).get("generation", -1)


@dataclass(frozen=True, slots=True)
class Restored:
    """Where a run goes on: the simulation (None: at its beginning), the journal's rows until there, and what was damaged."""

    sim: Simulation | None
    position: int
    damages: tuple[str, ...] = ()


def restore(
    folder: Path,
    plan: Plan,
    world: World,
    execute: Executor,
    *,
    eager: bool,
    limit: float = DEFAULT_LIMIT,
    links: Mapping[int, str] | None = None,
    noising: NoiseSource = SEEDED,
) -> Restored:
    """The newest checkpoint that is whole and belongs to the journal, whose sound links are `links` (None: not asked)."""
    damages: list[str] = []
    for path in checkpoint_files(folder):
        try:
            arrays, meta = load_tree(path)
            position = int(meta["position"])
            if links is not None and links.get(position) != meta["link"]:
                raise DamagedFile(f"{path} does not belong to the journal as it is on the disk")
            memory = ClientMemory(folder, limit)
            memory.restore(meta["memory"], arrays)
            memory.check()
            state, failed_tasks = thaw(meta["state"], arrays), {int(task) for task in meta["struck"]}
            strays = [ReportUnwanted(*_stray(values)) for values in meta["strays"]]
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, OSError, RunFailed) as error:
            damages.append(" ".join(f"{path}: {error}".split()) if not isinstance(error, RunFailed) else str(error))
            continue  # the one before it may be whole
        sim = _rebuild_simulation(memory, plan, world, execute, state, eager=eager, noising=noising)
        sim.failed_tasks |= failed_tasks
        for stray in strays:
            queue_late_report(sim, stray)
        return Restored(sim, position, tuple(damages))
    return Restored(None, 0, tuple(damages))


def _stray(values: Sequence[Any]) -> tuple[float, int, int, float, str]:
    time, task, client, size, reason = values
    return float(time), int(task), int(client), float(size), str(reason)


def _rebuild_simulation(
    memory: ClientMemory, plan: Plan, world: World, execute: Executor, state: RunState, *, eager: bool, noising: NoiseSource
) -> Simulation:
    sim = new_simulation(plan, world, execute, eager=eager, memory=memory, noising=noising, state=state)
    # By wave, the places of the tasks that run or wait to be folded.
    tasks = {**state.running, **{e.task: e.wave for e in open_endings(state)}}
    waves: dict[int, tuple[Wave, list[int]]] = {}
    for task in sorted(tasks):
        waves.setdefault(tasks[task].first, (tasks[task], []))[1].append(task - tasks[task].first)
    for wave, slots in waves.values():
        if any(wave.first + slot in memory.lent for slot in range(len(wave))):
            memory.expect(wave, (wave.first + slot for slot in slots))
        if sim.eager:  # reports in hand are not kept: training them again gives the same bits
            # Edges weigh themselves against all others of their wave, so the whole of it is trained again.
            edges = isinstance(plan.algorithm.local(int(wave.assignments.clients[0]), NO_SETTINGS), NestedPass)
            train_now(sim, wave, range(len(wave)) if edges else slots)
            for slot in set(range(len(wave))) - set(slots):
                sim.reports.pop(wave.first + slot, None)
    return resume_simulation(sim)
