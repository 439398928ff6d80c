"""Group commits: nothing is acknowledged before it is on disk, many reports share one commit, a full disk acknowledges nothing."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from fedfleet.core import aggregation
from fedfleet.core.errors import RunFailed
from fedfleet.network.frontend import partial_sums as summing
from fedfleet.network.frontend.group_commit import GroupCommit
from fedfleet.network.frontend.partial_sums import PartialSums, fold_layout
from fedfleet.network.frontend.spool import Spool, read_spool
from fedfleet.store.files import load_tree
from tests.network.frontend.test_partial_sums import SERVER, entered, fold_of, model, reference, same

FOLD = fold_of(model())
SHEET = fold_layout(FOLD, SERVER)


def test_reports_are_acknowledged_together_when_their_commit_lasts(tmp_path: Path) -> None:
    async def played() -> None:
        safe: list[int] = []
        acknowledged: list[int] = []
        sums = PartialSums(SHEET, tmp_path / "t0")
        committing = GroupCommit(sums, None, durable=True, seconds=0.01, on_safe=safe.extend)
        running = asyncio.create_task(committing.run())
        for task in range(20):
            committing.add(0, entered(task), model(task), b"", lambda task=task: acknowledged.append(task))
        assert acknowledged == []
        while len(acknowledged) < 20:
            await asyncio.sleep(0.001)
        assert safe == acknowledged == list(range(20)) and committing.commits == 1
        assert len(PartialSums(SHEET, tmp_path / "t0").recovered_entries()[0]) == 20
        committing.add(1, entered(20), model(20), b"", lambda: None)
        path, count = await committing.close(0, tmp_path / "closed")
        assert count == 20 and 20 in safe
        assert same(load_tree(Path(path))[0], reference(FOLD, [(entered(t), model(t)) for t in range(20)]))
        assert await committing.close(7, tmp_path / "empty") == ("", 0)
        committing.discard(0)
        assert sums.bucket_sums(0) is None and sums.count(1) == 1
        running.cancel()

    asyncio.run(played())


def test_slow_commits_leave_most_of_the_time_to_receiving_unless_a_bucket_is_awaited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = summing.SnapshotStore.write

    def slow(*args: Any) -> None:
        time.sleep(0.03)
        write(*args)

    async def played() -> None:
        loop, moments = asyncio.get_running_loop(), list[float]()
        committing = GroupCommit(
            PartialSums(SHEET, tmp_path),
            None,
            durable=True,
            seconds=0.0,
            on_safe=lambda tasks: moments.append(loop.time()),
        )
        running = asyncio.create_task(committing.run())
        began = loop.time()
        for task in range(2):
            committing.add(0, entered(task), model(task), b"", lambda: None)
            while len(moments) <= task:
                await asyncio.sleep(0.001)
        assert moments[1] - began >= 4 * 0.03 + 0.03
        committing.add(0, entered(2), model(2), b"", lambda: None)
        asked = loop.time()
        assert (await committing.close(0, tmp_path / "closed"))[1] == 3
        assert moments[2] - asked < moments[1] - moments[0]
        running.cancel()

    monkeypatch.setattr(summing.SnapshotStore, "write", slow)
    asyncio.run(played())


def test_without_durability_reports_are_acknowledged_at_once_and_the_spool_still_has_them(tmp_path: Path) -> None:
    async def played() -> None:
        acknowledged: list[int] = []
        sums, spool = PartialSums(SHEET, None), Spool(tmp_path, lasting=False)
        committing = GroupCommit(sums, spool, durable=False, seconds=60.0, on_safe=lambda tasks: None)
        for task in range(5):
            committing.add(0, entered(task), model(task), bytes([task]), lambda task=task: acknowledged.append(task))
        assert acknowledged == list(range(5))
        path, count = await committing.close(0, tmp_path / "closed")
        assert count == 5 and aggregation.load(FOLD, SERVER, load_tree(Path(path))[0]).count == 5
        assert read_spool(tmp_path, 0) == [(entered(t), bytes([t])) for t in range(5)]

    asyncio.run(played())


def test_a_commit_that_fails_acknowledges_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise RunFailed("no room")

    async def played() -> None:
        sums = PartialSums(SHEET, tmp_path)
        committing = GroupCommit(sums, None, durable=True, seconds=0.0, on_safe=lambda tasks: pytest.fail("not safe"))
        running = asyncio.create_task(committing.run())
        committing.add(0, entered(0), model(0), b"", lambda: pytest.fail("acknowledged"))
        with pytest.raises(RunFailed, match="no room"):
            await running

    monkeypatch.setattr(summing.SnapshotStore, "write", full)
    asyncio.run(played())
