"""What must outlive a kill beside the journal, and how a killed server is taken up again.

Checkpoints are written in a thread, small facts as lines of JSON. A resume takes the newest good checkpoint and replays the journal
after it to the last fact."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedfleet.core.commands import Gather
from fedfleet.core.errors import FedFleetError, RunFailed
from fedfleet.core.events import Event, ReportsGathered
from fedfleet.core.json_text import parse_json
from fedfleet.core.parts import Plan
from fedfleet.core.records import Ints
from fedfleet.core.sources import World
from fedfleet.core.trees import Array
from fedfleet.engine.checkpoint import freeze, thaw
from fedfleet.engine.coordinator import begin
from fedfleet.engine.replay import replay
from fedfleet.engine.state import RunState, uncommitted_arrivals
from fedfleet.network.frontend.snapshots import sync_folder
from fedfleet.network.rules.checkins import CheckinWriter, Intervals, OpenIntervals, join_intervals
from fedfleet.network.server.options import ServeOptions
from fedfleet.network.server.served_plan import ServedRun
from fedfleet.simulation.checkpoints import checkpoint_files
from fedfleet.store import journal as journals
from fedfleet.store.aggregates import load_aggregate
from fedfleet.store.files import DamagedFile, load_tree, save_tree
from fedfleet.store.journal import Journal
from fedfleet.store.journal_rows import decode

if TYPE_CHECKING:
    from fedfleet.network.server.server_loop import ServerLoop

_KEEP_CHECKPOINTS = 2
_CHECKIN_WRITE_SECONDS = 30.0


class CheckpointWriter:
    """Checkpoints at commits, and intervals of presence. One checkpoint is written at a time."""

    def __init__(self, served: ServedRun, options: ServeOptions) -> None:
        self._served, self._options = served, options
        self._thread = ThreadPoolExecutor(1, "fedfleet-checkpoint")
        self._saved_version = 0
        self._writing: asyncio.Future[None] | None = None
        self._open_intervals, self._ended_intervals = OpenIntervals(served.plan.clients), list[Intervals]()
        self._next_checkin_write = 0.0
        (served.folder / "wire").mkdir(exist_ok=True, mode=0o700)
        self._checkins = CheckinWriter(served.folder / "wire" / "checkins.bin")

    def resume_from(self, version: int) -> None:
        """The run resumes at this version."""
        self._saved_version = version

    def save_if_due(
        self, state: RunState, memory_task: Ints, gatherings: int, on_error: Callable[[BaseException | None], None]
    ) -> None:
        """A turn has ended, and the journal is on the disk: save if it is time."""
        version = state.book.version
        if not self._options.durable or version < self._saved_version + self._options.checkpoint_every:
            return
        if self._writing is not None and not self._writing.done():
            return
        journal = self._served.journal
        meta, arrays = freeze(state)
        arrays |= {"wire/memory_task": memory_task.copy()}
        meta_data = {"state": meta, "position": journal.position, "link": journal.link, "gatherings": gatherings}
        self._saved_version = version
        loop = asyncio.get_running_loop()
        self._writing = loop.run_in_executor(self._thread, self._write, version, arrays, meta_data)
        self._writing.add_done_callback(lambda done: None if done.cancelled() else on_error(done.exception()))

    def _write(self, version: int, arrays: dict[str, Array], meta_data: dict[str, Any]) -> None:
        folder = self._served.folder
        save_tree(folder / f"checkpoint-{version:08d}.safetensors", arrays, meta_data)
        for path in checkpoint_files(folder)[_KEEP_CHECKPOINTS:]:
            path.unlink()

    def record_checkins(self, clients: Ints, now: float) -> None:
        """Devices called; intervals that have ended are written now and then."""
        times = np.full(len(clients), now)
        self._ended_intervals.append(self._open_intervals.extend(clients, times, times))
        if now >= self._next_checkin_write:
            self._next_checkin_write = now + _CHECKIN_WRITE_SECONDS
            self._write_checkins(self._open_intervals.take_ended(now))

    def _write_checkins(self, intervals: Intervals) -> None:
        ended, self._ended_intervals = join_intervals([*self._ended_intervals, intervals]), []
        if len(ended.clients):
            # What is only analysed later must not stop a run; the journal will, if the disk is full.
            with suppress(OSError):
                self._checkins.append(ended)

    async def close(self) -> None:
        """Wait for what is being written."""
        self._write_checkins(self._open_intervals.take_all())
        self._checkins.close()
        if self._writing is not None:
            await asyncio.wait({self._writing})
        self._thread.shutdown()


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
        try:
            events = list(decode(rows[start.position :], start.position + 1))
            return journal, _replay_from(plan, world, folder, start, events, tuple(damages))
        except (FedFleetError, ValueError, KeyError) as error:
            damages.append(f"the journal after row {start.position} cannot be followed ({error})")
    start = starts[0]
    journal.truncate(start.position)
    damages.append(f"the run goes on from {f'row {start.position}' if start.position else 'its beginning'}")
    return journal, _replay_from(plan, world, folder, start, [], tuple(damages))


def restore(server: ServerLoop, recovery: RecoveredRun) -> None:
    """What a killed server knew: which tasks ran, which reports arrived and must be on a disk, which were rejected."""
    state, now = recovery.state, recovery.state.book.now
    server.offers.limits.forget_tasks(state.next_task)
    server.offers.client_state.restore(recovery.memory_task)
    server.checkpoint_writer.resume_from(state.book.version)
    for damage in recovery.damages:
        server.run.note(damage)
    if server.candidates.speeds is not None:
        server.candidates.on_events(list(decode(journals.rows_of(server.served.folder / "run.db"))))
    for wave in {wave.first: wave for wave in state.running.values()}.values():
        tasks = np.array(sorted(t for t, w in state.running.items() if w.first == wave.first), np.int64)
        clients = wave.assignments.clients[tasks - wave.first]
        server.admission.restore_running(tasks, clients, server.offers.limits.of(wave).heaviest[tasks - wave.first], now)
        server.candidates.on_sent(clients)
    server.admission.restore_strikes(state, now)
    server.admission.restore_arrived(uncommitted_arrivals(state), state.next_task, now)


def _replay_starts(plan: Plan, folder: Path, links: Mapping[int, str], damages: list[str]) -> list[_ReplayStart]:
    """Whence the journal can be followed, newest first; the beginning is always there."""
    starts: list[_ReplayStart] = []
    for path in checkpoint_files(folder):
        try:
            arrays, meta = load_tree(path)
            if links.get(int(meta["position"])) != meta["link"]:
                raise DamagedFile(f"{path} does not belong to the journal as it is on the disk")
            state = thaw(meta["state"], arrays)
            starts.append(_ReplayStart(state, int(meta["position"]), int(meta["gatherings"]), arrays["wire/memory_task"].copy()))
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
    # What was commanded then was carried out then.
    replayed = replay(plan, events, world.keys, world.data.sizes, regather, lambda command: None, start=start.state)
    return RecoveredRun(replayed.state, gatherings, memory_task, True, damages)


def read_lines(path: Path) -> list[Any]:
    """What the file holds, in order; nothing if there is none."""
    lines: list[Any] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else ():
        try:
            lines.append(parse_json(line))
        except ValueError:
            continue
    return lines


def add_line(path: Path, value: Any) -> None:
    """Add a line, after the end of one that was torn; it is on the disk when this returns."""
    try:
        new = not path.exists()
        with path.open("ab+") as file:
            size = file.seek(0, os.SEEK_END)
            torn = size > 0 and os.pread(file.fileno(), 1, size - 1) != b"\n"
            file.write((b"\n" if torn else b"") + json.dumps(value).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if new:
            sync_folder(path.parent)
    except OSError as error:
        raise RunFailed(f"{path} cannot be written ({error}); free some space, then resume") from error


class Rejections:
    """Why reports were rejected before their commit, by task, until it is made: their devices do not send them again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.reasons: dict[int, str] = {}
        for line in read_lines(path):
            match line:
                case [int(task), str(why)]:
                    self.reasons[task] = why
                case _:
                    continue

    def add(self, task: int, why: str) -> None:
        """Remember a rejection; it is on the disk when this returns."""
        self.reasons[task] = why
        add_line(self._path, [task, why])

    def forget(self, tasks: Iterable[int]) -> None:
        """Their commit is made."""
        forgotten = [task for task in tasks if self.reasons.pop(task, None) is not None]
        if forgotten and not self.reasons:
            self._path.unlink(missing_ok=True)

    def keep_only(self, tasks: Iterable[int]) -> None:
        """Forget all but these: what a killed server left behind may be of commits that were made."""
        wanted = set(tasks)
        self.forget([task for task in self.reasons if task not in wanted])


class ClientState:
    """What devices remember: of each client, the last task that was folded. A device that takes a place over remembers nothing.

    `memory_task[client]` is the task whose memory the device of this client holds, -1 if it has none. Takeovers are on the disk:
    the journal says which tasks were folded, and not by which device.
    """

    def __init__(self, clients: int, path: Path) -> None:
        self.memory_task: Ints = np.full(clients, -1, np.int64)
        self._path = path
        # By client: the first task that the device which has its place now can have been given.
        self._first_task: dict[int, int] = {}
        for line in read_lines(path):
            match line:
                case [int(client), int(task)] if 0 <= client < clients:
                    self._first_task[client] = task
                case _:
                    continue

    def record_folded(self, client: int, task: int) -> None:
        """A report was folded: what its device remembered with it holds, if it is still the one that has the place."""
        if task >= self._first_task.get(client, 0):
            self.memory_task[client] = task

    def record_takeover(self, client: int, next_task: int) -> None:
        """Another device has the place; tasks from `next_task` on are its own."""
        add_line(self._path, [client, next_task])
        self._first_task[client] = next_task
        self.memory_task[client] = -1

    def restore(self, task: Ints) -> None:
        """Resume where a killed server stopped, by what its journal says."""
        self.memory_task = task.copy()
        for client, first_task in self._first_task.items():
            if self.memory_task[client] < first_task:
                self.memory_task[client] = -1
