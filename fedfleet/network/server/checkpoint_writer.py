"""What a server saves alongside its journal: checkpoints, written in a thread, and when devices were there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np

from fedfleet.core.records import Ints
from fedfleet.core.trees import Array
from fedfleet.engine.checkpoint import freeze
from fedfleet.engine.state import RunState
from fedfleet.network.rules.checkins import CheckinWriter, Intervals, OpenIntervals, join_intervals
from fedfleet.network.server.options import ServeOptions
from fedfleet.network.server.served_plan import ServedRun
from fedfleet.simulation.checkpoints import checkpoint_files
from fedfleet.store.files import save_tree

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
