"""Entries and records: what was written comes back, whatever is damaged is told apart.

Group commits: nothing is acknowledged before it is on disk, many reports share one commit, a full disk acknowledges nothing.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google_crc32c import value
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core import aggregation
from fedfleet.core.errors import Refused, RunFailed
from fedfleet.network.frontend import partial_sums as summing
from fedfleet.network.frontend.partial_sums import PartialSums, fold_layout
from fedfleet.network.frontend.report_log import (
    GroupCommit,
    LogEntry,
    checksum,
    entry_from_bytes,
    entry_to_bytes,
    record_head,
    records,
)
from fedfleet.network.frontend.spool import Spool, read_spool
from fedfleet.store.files import load_tree
from tests.network.frontend.test_partial_sums import SERVER, entered, fold_of, model, reference, same

NAME = st.text(st.characters(codec="utf-8"), max_size=20)
LONG = st.integers(0, 2**64 - 1)
NUMBER = st.floats(allow_nan=False)


@st.composite
def entries(draw: st.DrawFn) -> LogEntry:
    said = draw(st.lists(st.tuples(NAME, NUMBER), max_size=20))
    short = st.integers(0, 2**32 - 1)
    return LogEntry(
        draw(LONG), draw(short), draw(LONG), draw(NUMBER), draw(NUMBER), draw(NUMBER), draw(NAME), draw(short), draw(LONG),
        tuple(n for n, _ in said), tuple(v for _, v in said), draw(st.integers(0, len(said))),
    )  # fmt: skip


PLAIN = LogEntry(1, 2, 3, 0.5, 10.0, 1.0, "", 7, 99, ("loss", "train"), (0.25, 3.0), 1)


@given(entry=entries())
def test_an_entry_comes_back_as_it_was(entry: LogEntry) -> None:
    assert entry_from_bytes(entry_to_bytes(entry)) == entry


def test_an_ordinary_entry_takes_about_a_hundred_bytes() -> None:
    assert len(entry_to_bytes(PLAIN)) < 100


@given(data=st.binary(max_size=200))
def test_other_bytes_are_refused_and_nothing_worse(data: bytes) -> None:
    try:
        back = entry_from_bytes(data)
    except Refused:
        return
    assert len(data) == len(entry_to_bytes(back))


@given(entry=entries(), cut=st.integers(1, 30))
def test_a_torn_entry_is_refused(entry: LogEntry, cut: int) -> None:
    with pytest.raises(Refused):
        entry_from_bytes(entry_to_bytes(entry)[:-cut])


@pytest.mark.parametrize(
    "odd",
    [
        PLAIN._replace(names=("a",) * 65, values=(0.0,) * 65),
        PLAIN._replace(names=("a",)),
        PLAIN._replace(sum="s" * 256),
        PLAIN._replace(names=("é" * 128, "b")),
        PLAIN._replace(task=-1),
        PLAIN._replace(client=2**32),
        PLAIN._replace(stats=3),
    ],
)
def test_what_is_out_of_bounds_is_refused(odd: LogEntry) -> None:
    with pytest.raises(Refused):
        entry_to_bytes(odd)


def test_checksums_are_crc32c_of_any_buffer_in_pieces() -> None:
    data = np.random.default_rng(0).bytes(5 << 18)
    assert checksum(data) == checksum(memoryview(bytearray(b"x" + data))[1:]) == value(data)
    assert checksum(np.frombuffer(data, np.int64)) == value(data)
    assert checksum(data[7:], checksum(data[:7])) == value(data)


def stored(path: Path, data: bytes) -> list[tuple[int, bytes | None, bytes]]:
    path.write_bytes(data)
    handle = os.open(path, os.O_RDONLY)
    try:
        return [(result.bucket, result.entry, result.payload) for result in records(handle, len(data))]
    finally:
        os.close(handle)


def test_records_end_at_the_torn_one_and_skip_a_damaged_content(tmp_path: Path) -> None:
    said = entry_to_bytes(PLAIN)
    one = [record_head(b, said, b"abc") + said + b"abc" for b in range(3)]
    good = [(b, said, b"abc") for b in range(3)]
    assert stored(tmp_path / "r", b"".join(one)) == good
    for cut in range(1, len(one[0]) + 1):
        assert stored(tmp_path / "r", b"".join(one)[:-cut]) == good[:2]
    middle = len(one[0])
    for at in range(middle):
        data = bytearray(b"".join(one))
        data[middle + at] ^= 0x10
        result = stored(tmp_path / "r", bytes(data))
        assert result[:1] == good[:1] and good[1] not in result
        assert result in (good[:1], [good[0], (1, None, b""), good[2]])


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
