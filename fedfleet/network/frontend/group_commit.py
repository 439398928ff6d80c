"""Group commits: granted reports enter the sums at once, and are acknowledged together when a snapshot of them is on the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from fedfleet.core.trees import Array, Tree
from fedfleet.network.frontend.partial_sums import PartialSums
from fedfleet.network.frontend.report_log import LogEntry
from fedfleet.network.frontend.spool import Spool
from fedfleet.store.files import save_tree

Acknowledge = Callable[[], None]
_WAIT_FACTOR = 4.0  # of the time, at most one part in this many is spent on making sums safe ..
_MAX_SECONDS = 0.5  # .. unless devices would wait longer than this for a receipt


def commit_interval(seconds: float, last_seconds: float) -> float:
    """How long after a commit began the next may: so that large snapshots leave most of the time to receiving.

    >>> commit_interval(0.02, 0.002), commit_interval(0.02, 0.03), commit_interval(0.02, 4.0)
    (0.02, 0.12, 0.5)
    """
    return max(seconds, min(_WAIT_FACTOR * last_seconds, _MAX_SECONDS))


class GroupCommit:
    """Where a frontend puts granted reports. `on_safe` gets the tasks that a commit has made safe."""

    def __init__(
        self,
        sums: PartialSums | None,
        spool: Spool | None,
        *,
        durable: bool,
        seconds: float,
        on_safe: Callable[[list[int]], None],
    ) -> None:
        self.sums, self.spool, self._durable, self._seconds, self._on_safe = sums, spool, durable, seconds, on_safe
        self._waiting: list[tuple[int, Acknowledge]] = []
        self._wake = asyncio.Event()
        self._commit_now = asyncio.Event()  # the server waits for a bucket: do not gather any longer
        self._lock = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "fedfleet-commit")
        self.commits = 0

    def add(
        self,
        bucket: int,
        entry: LogEntry,
        tree: Tree,
        payload: memoryview | bytes,
        acknowledge: Acknowledge,
        flat_update: Array | None = None,
    ) -> None:
        """Fold, or spool, a granted report; `acknowledge` is called when it is safe. `flat_update`: see `PartialSums.add`."""
        if self.sums is not None:
            self.sums.add(bucket, entry, tree, flat_update)
        if self.spool is not None:
            self.spool.add(bucket, entry, payload)
        self._waiting.append((entry.task, acknowledge))
        if self._durable or self.spool is not None:  # what is spooled must reach its file in any case
            self._wake.set()
        if not self._durable:
            self._acknowledge(self._take_waiting())

    async def run(self) -> None:
        """Commit for ever: together what gathered in the meantime; a report that comes after a silence is committed at once."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            await self._wake.wait()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._commit_now.wait(), max(0.0, due - loop.time()))
            began = loop.time()
            await self.commit()
            due = began + commit_interval(self._seconds, loop.time() - began)

    async def commit(self) -> None:
        """Make everything that was added so far safe."""
        async with self._lock:
            self._wake.clear()
            self._commit_now.clear()
            waiting = self._take_waiting()
            if not waiting and not (self.spool is not None and self.spool.dirty):
                return
            frozen_sums = self.sums.freeze() if self.sums is not None else None
            loop = asyncio.get_running_loop()
            if self.spool is not None:  # first: what counts as safe was kept too
                await loop.run_in_executor(self._thread, self.spool.sync)
            if frozen_sums is not None:
                await loop.run_in_executor(self._thread, frozen_sums.write)
            self.commits += 1
            self._acknowledge(waiting)

    async def close(self, bucket: int, path: Path) -> tuple[str, int]:
        """Everything of a bucket is safe; the file with its sums ("" if there are none), and how many reports it holds."""
        if self._durable or self.spool is not None:
            self._commit_now.set()
            await self.commit()
        sums = self.sums.bucket_sums(bucket) if self.sums is not None else None
        count = self.sums.count(bucket) if self.sums is not None else 0
        if sums is None:
            return "", 0
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, _write_sums, path, sums)
        return str(path), count

    def discard(self, bucket: int) -> None:
        """Its commit is made, or will never be."""
        if self.sums is not None:
            self.sums.discard(bucket)
        if self.spool is not None:
            self.spool.discard(bucket)

    def _take_waiting(self) -> list[tuple[int, Acknowledge]]:
        waiting, self._waiting = self._waiting, []
        return waiting

    def _acknowledge(self, waiting: list[tuple[int, Acknowledge]]) -> None:
        self._on_safe([task for task, _ in waiting])
        for _, acknowledge in waiting:
            acknowledge()


def _write_sums(path: Path, sums: Tree) -> None:
    save_tree(path, sums)
