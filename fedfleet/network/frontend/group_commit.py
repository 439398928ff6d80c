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
_WAIT_FACTOR = 4.0  # of the time, at most one part in so many is spent on making sums safe ..
_MAX_SECONDS = 0.5  # .. unless whoever waits for a receipt would wait longer than so many seconds


def commit_interval(seconds: float, last_seconds: float) -> float:
    """How long after a commit began the next may: so that large snapshots leave most of the time to receiving.

    >>> gathering(0.02, 0.002), gathering(0.02, 0.03), gathering(0.02, 4.0)
    (0.02, 0.12, 0.5)
    """
    return max(seconds, min(_WAIT_FACTOR * last_seconds, _MAX_SECONDS))


class GroupCommit:
    """Where a transmitter puts granted reports. `safe` hears of the tasks that a commit has made safe."""

    def __init__(
        self,
        sums: PartialSums | None,
        spool: Spool | None,
        *,
        durable: bool,
        seconds: float,
        on_safe: Callable[[list[int]], None],
    ) -> None:
        self._sums, self._spool, self._durable, self._seconds, self._on_safe = sums, spool, durable, seconds, on_safe
        self._waiting: list[tuple[int, Acknowledge]] = []
        self._wake = asyncio.Event()
        self._commit_now = asyncio.Event()  # somebody waits for a bucket: do not gather any longer
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
        """Fold, or spool, a granted report; `acknowledge` is called when it is safe. `whole`: see `PartialSums.add`."""
        if self._sums is not None:
            self._sums.add(bucket, entry, tree, flat_update)
        if self._spool is not None:
            self._spool.add(bucket, entry, payload)
        self._waiting.append((entry.task, acknowledge))
        if self._durable or self._spool is not None:  # what is spooled must reach its file in any case
            self._wake.set()
        if not self._durable:
            self._acknowledge(self._take_waiting())

    async def run(self) -> None:
        """Commit for ever: whatever gathered meanwhile, together; what comes after a silence need not wait for company."""
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
            if not waiting and not (self._spool is not None and self._spool.dirty):
                return
            frozen_sums = self._sums.freeze() if self._sums is not None else None
            loop = asyncio.get_running_loop()
            if self._spool is not None:  # first: what counts as safe was kept too
                await loop.run_in_executor(self._thread, self._spool.sync)
            if frozen_sums is not None:
                await loop.run_in_executor(self._thread, frozen_sums.write)
            self.commits += 1
            self._acknowledge(waiting)

    async def close(self, bucket: int, path: Path) -> tuple[str, int]:
        """Everything of a bucket is safe; the file with its sums ("" if there are none), and how many reports it holds."""
        if self._durable or self._spool is not None:
            self._commit_now.set()
            await self.commit()
        sums = self._sums.bucket_sums(bucket) if self._sums is not None else None
        count = self._sums.count(bucket) if self._sums is not None else 0
        if sums is None:
            return "", 0
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, _write_sums, path, sums)
        return str(path), count

    def discard(self, bucket: int) -> None:
        """Its commit is made, or will never be."""
        if self._sums is not None:
            self._sums.discard(bucket)
        if self._spool is not None:
            self._spool.discard(bucket)

    def _take_waiting(self) -> list[tuple[int, Acknowledge]]:
        waiting, self._waiting = self._waiting, []
        return waiting

    def _acknowledge(self, waiting: list[tuple[int, Acknowledge]]) -> None:
        self._on_safe([task for task, _ in waiting])
        for _, acknowledge in waiting:
            acknowledge()


def _write_sums(path: Path, sums: Tree) -> None:
    save_tree(path, sums)
