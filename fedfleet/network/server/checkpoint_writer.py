"""What a server saves beside its journal: checkpoints, written beside the loop, and when devices were there."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from fedfleet.core.records import Ints
from fedfleet.core.trees import Array
from fedfleet.engine.checkpoint import freeze
from fedfleet.network.rules.checkins import CheckinWriter, Intervals, Stays, joined
from fedfleet.network.server.options import Serve
from fedfleet.network.server.served_plan import Served
from fedfleet.simulation.checkpoints import checkpoint_files
from fedfleet.store.files import save_tree

if TYPE_CHECKING:
    from fedfleet.network.server.server_loop import Processor

_KEPT = 2
_STAYS_SECONDS = 30.0


class Saving:
    """Checkpoints at commits. One is written at a time; a commit that comes meanwhile has its turn when it is done."""

    def __init__(self, served: Served, options: Serve) -> None:
        self._served, self._options = served, options
        self._thread = ThreadPoolExecutor(1, "fedfleet-checkpoint")
        self._saved = 0
        self._writing: asyncio.Future[None] | None = None
        self._stays, self._ended = Stays(served.plan.clients), list[Intervals]()
        self._write_stays_at = 0.0
        (served.folder / "wire").mkdir(exist_ok=True, mode=0o700)
        self._checkins = CheckinWriter(served.folder / "wire" / "checkins.bin")

    def taken_up(self, version: int) -> None:
        """The run goes on from this version."""
        self._saved = version

    def settled(self, of: Processor) -> None:
        """A turn has ended, and the journal is on the disk: save if it is time."""
        version = of.state.book.version
        if not self._options.durable or version < self._saved + self._options.checkpoint_every:
            return
        if self._writing is not None and not self._writing.done():
            return
        journal = self._served.journal
        meta, arrays = freeze(of.state)
        arrays |= {"wire/memory_task": of.memories.task.copy()}
        whole = {"state": meta, "position": journal.position, "link": journal.link, "gatherings": of.gatherings}
        self._saved = version
        loop = asyncio.get_running_loop()
        self._writing = loop.run_in_executor(self._thread, self._write, version, arrays, whole)
        self._writing.add_done_callback(lambda done: None if done.cancelled() else of.fail(done.exception()))

    def _write(self, version: int, arrays: dict[str, Array], whole: dict[str, Any]) -> None:
        folder = self._served.folder
        save_tree(folder / f"checkpoint-{version:08d}.safetensors", arrays, whole)
        for path in checkpoint_files(folder)[_KEPT:]:
            path.unlink()

    def came(self, clients: Ints, now: float) -> None:
        """Devices called; intervals that have ended are written now and then."""
        at = np.full(len(clients), now)
        self._ended.append(self._stays.seen(clients, at, at))
        if now >= self._write_stays_at:
            self._write_stays_at = now + _STAYS_SECONDS
            self._write_stays(self._stays.over(now))

    def _write_stays(self, more: Intervals) -> None:
        found, self._ended = joined([*self._ended, more]), []
        if len(found.clients):
            with suppress(
                OSError
            ):  # what is only learnt from later must not stop a run; the journal will, if the disk is full
                self._checkins.append(found)

    async def close(self) -> None:
        """Wait for what is being written."""
        self._write_stays(self._stays.all())
        self._checkins.close()
        if self._writing is not None:
            await asyncio.wait({self._writing})
        self._thread.shutdown()
