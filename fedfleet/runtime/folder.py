"""A run's folder on the disk: checkpoints and models as safetensors, written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from fedfleet.core.edges import NestedPass
from fedfleet.core.errors import RunFailed
from fedfleet.core.parts import Executor, Plan, World
from fedfleet.core.passes import NO_SETTINGS
from fedfleet.core.records import Wave
from fedfleet.core.trees import Array, Tree
from fedfleet.engine.checkpoint import freeze, thaw
from fedfleet.engine.state import in_order_of_arrival
from fedfleet.runtime.journal import Journal
from fedfleet.runtime.memory import DEFAULT_LIMIT, ClientMemory
from fedfleet.runtime.simulate import Simulation, taken_up, train_now

_KEPT = 2  # a torn newest checkpoint still leaves the one before


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a crash leaves either the old content or the new."""
    draft = path.with_name(path.name + ".part")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        _sync_folder(path.parent)
    except OSError as wrong:
        draft.unlink(missing_ok=True)
        raise RunFailed(f"{path} cannot be written ({wrong}); free some space, then resume") from wrong


def save_tree(path: Path, tree: Mapping[str, Array], meta: Mapping[str, Any] | None = None) -> None:
    """A tree, and facts about it, as one safetensors file."""
    arrays = {n: np.asarray(v, order="C") for n, v in tree.items()}
    write_whole(path, save(arrays, {"fedfleet": json.dumps(meta)} if meta is not None else None))


def load_tree(path: Path) -> tuple[Tree, dict[str, Any]]:
    """The inverse of `save_tree`."""
    with safe_open(path, "np") as file:
        meta = json.loads((file.metadata() or {}).get("fedfleet", "{}"))
        return {name: file.get_tensor(name) for name in file.keys()}, meta  # noqa: SIM118


@dataclass(slots=True)
class Checkpoints:
    """Saves a checkpoint every so many commits, after the journal it refers to is on the disk."""

    folder: Path
    journal: Journal
    every: int
    saved_at: int = 0

    def settled(self, sim: Simulation) -> None:
        """Save if it is time."""
        sim.memory.live_in(self.folder)
        version = sim.state.book.version
        if version < self.saved_at + self.every:
            return
        self.journal.flush()
        meta, arrays = freeze(sim.state)
        remembered, columns = sim.memory.save()
        arrays |= columns
        whole = {"state": meta, "memory": remembered, "position": self.journal.position}
        save_tree(self.folder / f"checkpoint-{version:08d}.safetensors", arrays, whole)
        self.saved_at = version
        kept, old = checkpoint_files(self.folder)[:_KEPT], checkpoint_files(self.folder)[_KEPT:]
        for path in old:
            path.unlink()
        if remembered:
            sim.memory.release(generation_of(path) for path in kept)


def checkpoint_files(folder: Path) -> list[Path]:
    """The checkpoints of a run, newest first."""
    return sorted(folder.glob("checkpoint-*.safetensors"), reverse=True)


def generation_of(path: Path) -> int:
    """The file of the clients' memory that a checkpoint refers to; -1: none."""
    with safe_open(path, "np") as file:
        return json.loads((file.metadata() or {}).get("fedfleet", "{}")).get("memory", {}).get("generation", -1)


def restore(
    folder: Path, plan: Plan, world: World, execute: Executor, *, eager: bool, limit: float = DEFAULT_LIMIT
) -> tuple[Simulation, int] | None:
    """The newest readable checkpoint as a simulation, with its journal position; None if there is none."""
    for path in checkpoint_files(folder):
        try:
            arrays, meta = load_tree(path)
            memory = ClientMemory(folder, limit)
            memory.restore(meta["memory"], arrays)
        except (SafetensorError, ValueError, RunFailed):
            continue  # torn, or its memory is: the one before it is whole
        return _rebuild(memory, plan, world, execute, arrays, meta, eager=eager), int(meta["position"])
    return None


def _rebuild(
    memory: ClientMemory,
    plan: Plan,
    world: World,
    execute: Executor,
    arrays: Tree,
    meta: dict[str, Any],
    *,
    eager: bool,
) -> Simulation:
    busy = np.zeros(len(world.keys), np.bool_)
    eager = eager or plan.algorithm.priced_by_value
    sim = Simulation(plan, world, execute, eager, thaw(meta["state"], arrays), busy=busy, memory=memory)
    for wave, slots in _unfinished(sim).values():
        if any(wave.first + slot in memory.lent for slot in range(len(wave))):
            memory.expect(wave, (wave.first + slot for slot in slots))
        if sim.eager:  # reports in hand are not kept: training them again gives the same bits
            _hold_again(sim, wave, slots)
    return taken_up(sim)


def _unfinished(sim: Simulation) -> dict[int, tuple[Wave, list[int]]]:
    """By wave, the places of the tasks that run or wait to be folded."""
    ended = (*in_order_of_arrival(sim.state.ended), *in_order_of_arrival(sim.state.gathering))
    found = [*sim.state.running.items(), *((e.task, e.wave) for e in ended)]
    waves: dict[int, tuple[Wave, list[int]]] = {}
    for task, wave in sorted(found, key=lambda pair: pair[0]):
        waves.setdefault(wave.first, (wave, []))[1].append(task - wave.first)
    return waves


def _hold_again(sim: Simulation, wave: Wave, slots: list[int]) -> None:
    # Edges weigh themselves against all others of their wave, so the whole of it is trained again.
    edges = isinstance(sim.plan.algorithm.local(int(wave.asked.clients[0]), NO_SETTINGS), NestedPass)
    train_now(sim, wave, range(len(wave)) if edges else slots)
    for slot in set(range(len(wave))) - set(slots):
        sim.held.pop(wave.first + slot, None)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
