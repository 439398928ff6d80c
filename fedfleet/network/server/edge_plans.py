"""The turns of edges, which a server plans for all edges of a wave together, and what its rule remembers of each edge.

A turn is on the disk before its task leaves the server, with what the rule remembers once its report is folded. So a server that
was killed hands out the same turns again, and the memory of an edge is that of its last folded task.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedfleet.core.edges import NestedPass, Turn, Visit
from fedfleet.core.errors import RunFailed
from fedfleet.core.parts import Job, Plan
from fedfleet.core.passes import NO_SETTINGS
from fedfleet.core.records import Ints, Slots, Wave
from fedfleet.core.sources import World
from fedfleet.core.trees import Tree
from fedfleet.engine.hierarchy import EDGE, check_turn, make_visits, memory_after, turn_cost, turn_seconds, turn_stats
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.process_link import Blob, write_blob
from fedfleet.network.protocol.turn_format import EdgeSync, EdgeTurn, turn_to_bytes
from fedfleet.store.files import DamagedFile, load_tree, save_tree

_KEPT = 3  # turns of each edge: the one that runs, the last that was folded, and one more
_TURN, _MEMORY = "turn", "memory/"


class EdgePlans:
    """Plans turns. `shared` is where frontends find bytes; `memory_task()` is the last folded task of each edge, -1 for none."""

    def __init__(self, plan: Plan, world: World, folder: Path, shared: Path, memory_task: Callable[[], Ints]) -> None:
        self._plan, self._world, self._folder, self._shared = plan, world, folder / "wire" / "turns", shared
        self._memory_task = memory_task

    def fill_in(self, wave: Wave, message: inside.Wave) -> list[Blob]:
        """Name the turn of each task in the message of its wave; the blobs that hold them."""
        self._folder.mkdir(exist_ok=True, mode=0o700)
        turns = self._stored_turns(wave)
        blobs = [write_blob(self._shared, turn) for turn in (self._make(wave) if turns is None else turns)]
        message.turns.extend(blob.name for blob in blobs)
        return blobs

    def _stored_turns(self, wave: Wave) -> list[bytes] | None:
        """The turns of a wave that went out before; None if not all are here."""
        result: list[bytes] = []
        for task, client in enumerate(wave.assignments.clients.tolist(), wave.first):
            try:
                tree, meta = load_tree(self._path(client, task))
            except (DamagedFile, OSError):
                return None
            if meta["time"] != wave.time:  # of a journal that was damaged, and gives the numbers of its tasks again
                return None
            result.append(tree[_TURN].tobytes())
        return result

    def _make(self, wave: Wave) -> list[bytes]:
        jobs = [self._job(wave, task, client) for task, client in enumerate(wave.assignments.clients.tolist(), wave.first)]
        visits, result = make_visits(jobs), list[bytes]()
        first = jobs[0].local
        assert isinstance(first, NestedPass)
        for job, visit, turn in zip(jobs, visits, first.rule.plan(visits), strict=True):
            check_turn(visit, turn)
            seconds = turn_seconds(turn_cost(job, visit, turn))
            memory = memory_after(job, turn, seconds)[EDGE]
            data = turn_to_bytes(self._edge_turn(job, visit, turn, seconds))
            tree: Tree = {_TURN: np.frombuffer(data, np.uint8), **{f"{_MEMORY}{n}": v for n, v in memory.items()}}
            save_tree(self._path(job.client, job.task), tree, {"time": wave.time})
            self._forget(job.client)
            result.append(data)
        return result

    def _job(self, wave: Wave, task: int, client: int) -> Job:
        algorithm, slot = self._plan.algorithm, task - wave.first
        offer, local = algorithm.offer(wave.server, client, NO_SETTINGS), algorithm.local(client, NO_SETTINGS)
        rows = self._world.data.shard(client, "train", wave.round)
        key = int(wave.keys[slot])
        memory = self._memory(client)
        return Job(task, client, key, self._plan.seed, offer, local, rows, 0, memory, NO_SETTINGS, wave.round, wave.time)

    def _memory(self, client: int) -> Slots:
        """What the rule remembers of an edge: that of the turn whose report was folded last."""
        task = int(self._memory_task()[client])
        if task < 0:
            return {}
        try:
            tree, _ = load_tree(self._path(client, task))
        except (DamagedFile, OSError) as error:
            raise RunFailed(f"what the rule of edge {client} remembers of task {task} cannot be read ({error})") from None
        return {EDGE: {name.removeprefix(_MEMORY): leaf for name, leaf in tree.items() if name.startswith(_MEMORY)}}

    def _edge_turn(self, job: Job, visit: Visit, turn: Turn, seconds: float) -> EdgeTurn:
        """What the edge is told: without devices that hold nothing, and without the rows of those that train on all they have."""
        assert isinstance(job.local, NestedPass)
        first_slots = job.local.fleet.first_slots(job.client)
        gives, gets = moved_rows(visit, turn)
        if gives and not job.local.rule.moves_samples:
            raise RunFailed(
                f"edge.use = {job.local.rule.name!r} moves samples, and its rule does not say so (EdgeRule.moves_samples)"
            )
        syncs: list[EdgeSync] = []
        if gives:
            syncs.append(EdgeSync(np.array(sorted(gives), np.int64), tuple(gives[slot] for slot in sorted(gives)), exchange=True))
        for sync in turn.syncs:
            rows = [
                (slot, None if np.array_equal(some, job.rows[first_slots == slot]) else some)
                for slot, some in zip(sync.slots.tolist(), sync.rows, strict=True)
                if len(some)
            ]
            syncs.append(EdgeSync(np.array([slot for slot, _ in rows], np.int64), tuple(some for _, some in rows), sync.steps))
        stats = {n: v for n, v in turn_stats(visit, turn, seconds).items() if n != "edge_seconds"}
        return EdgeTurn(job.task, tuple(syncs), len(job.rows), turn.weight, stats, gets)

    def _forget(self, client: int) -> None:
        """Remove turns of an edge that are neither running nor remembered."""
        files = sorted(self._folder.glob(f"{client}-*.safetensors"))
        last = int(self._memory_task()[client])
        for path in files[:-_KEPT]:
            if int(path.stem.partition("-")[2]) < last:
                path.unlink(missing_ok=True)

    def _path(self, client: int, task: int) -> Path:
        return self._folder / f"{client}-{task:012d}.safetensors"


def moved_rows(visit: Visit, turn: Turn) -> tuple[dict[int, Ints], dict[int, Ints]]:
    """Which rows each device gives to others before it trains, and which it gets, by place; empty where none changes device."""
    gives, gets = dict[int, Ints](), dict[int, Ints]()
    for slot, (before, after) in enumerate(zip(visit.rows, turn.rows, strict=True)):
        gone, come = before[~np.isin(before, after)], after[~np.isin(after, before)]
        if len(gone):
            gives[slot] = gone
        if len(come):
            gets[slot] = come
    return gives, gets
