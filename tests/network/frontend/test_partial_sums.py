"""Partial sums: the bits of the core's fold in any order and over any number of transmitters, and nothing safe is ever lost."""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core import aggregation, exact
from fedfleet.core.aggregation import Entry, Fold
from fedfleet.core.errors import Refused, RunFailed
from fedfleet.core.records import Context, Report, ServerState
from fedfleet.core.tensor_format import pack_tree, view_tree_and_array
from fedfleet.core.trees import Tree, content_hash
from fedfleet.network.frontend import partial_sums, snapshots, sum_kernel
from fedfleet.network.frontend.partial_sums import (
    LogEntry,
    PartialSums,
    fold_layout,
    layout_from_json,
    layout_to_json,
    refusal,
)

pytestmark = pytest.mark.slow

SERVER = ServerState({})


@pytest.fixture(params=["compiled", "numpy"])
def _either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sum_kernel, "COMPILE_MIN_ELEMENTS", 0 if request.param == "compiled" else 10**9)
    assert sum_kernel.speed_warning({}) is None


def entered(task: int, weight: float = 1.0, factor: float = 1.0, into: str = "") -> LogEntry:
    return LogEntry(task, task, task, float(task), weight, factor, into, task, 10, ("loss", "train"), (0.5, 2.0), 1)


def model(seed: int = 0) -> Tree:
    rng = np.random.default_rng(seed)
    return {
        "a": rng.normal(size=(3, 4)).astype(np.float32),
        "b": rng.normal(size=()).astype(np.float64),
        "n": np.array([seed], np.int64),
        "z": np.zeros((0, 2), np.float32),
    }


def fold_of(like: Tree, *, clip: float | None = None, **more: Any) -> Fold:
    """A fold that lets each report enter as its statistics say."""

    def enter(weight: float, stats: Any, context: Context) -> Entry:
        return Entry(weight, stats["factor"], "extra" if stats["into"] else "")

    return Fold(lambda server: like, enter=enter, fine=lambda name: name == "a", clip=clip, **more)


def reference(fold: Fold, reports: list[tuple[LogEntry, Tree]]) -> Tree:
    acc = aggregation.zero(fold, SERVER)
    for entry, tree in reports:
        stats = {"factor": entry.factor, "into": float(entry.sum != "")}
        aggregation.add(fold, acc, Report(entry.task, 0, tree, entry.weight, stats), Context(0, 0.0, 0, {}))
    return aggregation.save(acc)


def same(a: Tree | None, b: Tree) -> bool:
    return a is not None and content_hash(a) == content_hash(b)


@pytest.mark.usefixtures("_either")
@pytest.mark.parametrize("clip", [None, 0.5])
def test_bits_are_those_of_the_core(clip: float | None) -> None:
    @given(
        st.lists(
            st.tuples(st.integers(0, 99), st.floats(2.0**-50, 1000.0), st.floats(-1, 1), st.booleans()),
            min_size=1,
            max_size=6,
        )
    )
    def holds(given_: list[tuple[int, float, float, bool]]) -> None:
        fold = fold_of(model(), clip=clip)
        part = PartialSums(fold_layout(fold, SERVER), None)
        reports = [(entered(i, w, f, "extra" if s else ""), model(seed)) for i, (seed, w, f, s) in enumerate(given_)]
        for entry, tree in reports:
            assert refusal(fold_layout(fold, SERVER), tree, entry.weight) is None
            part.add(3, entry, tree)
        saved = part.bucket_sums(3)
        assert same(saved, reference(fold, reports)) and part.count(3) == len(reports)
        loaded = aggregation.load(fold, SERVER, saved or {})
        assert aggregation.finish(fold, loaded) is not None and loaded.count == len(reports)

    holds()


@pytest.mark.usefixtures("_either")
def test_a_thousand_updates_in_ten_orders_over_one_to_three_transmitters(tmp_path: Path) -> None:
    fold, rng = fold_of(model(), clip=3.0), np.random.default_rng(5)
    reports = [
        (entered(t, float(rng.uniform(0.1, 99.0)), float(rng.uniform(-1, 1)), "extra" if t % 3 else ""), model(t))
        for t in range(1000)
    ]
    expected = reference(fold, sorted(reports, key=lambda r: r[0].sum))
    for order in range(10):
        parts = [PartialSums(fold_layout(fold, SERVER), tmp_path / f"{order}-{i}") for i in range(1 + order % 3)]
        for at in rng.permutation(1000):
            part = parts[int(rng.integers(len(parts)))]
            part.add(order, *reports[at])
            if rng.random() < 0.002:
                part.freeze().write()
        whole = aggregation.zero(fold, SERVER)
        for part in parts:
            whole = aggregation.merge(fold, whole, aggregation.load(fold, SERVER, part.bucket_sums(order) or {}))
            part.close()
        assert same(aggregation.save(whole), expected)


@pytest.mark.usefixtures("_either")
def test_reports_that_are_one_array_have_the_same_bits_and_last(tmp_path: Path) -> None:
    """Leaves that travel by name, of a model that has them in another order, one of them empty."""
    like = {n: np.zeros(shape, np.float32) for n, shape in {"z": (3, 4), "b": (), "m": (0, 2), "a": (5,)}.items()}
    fold = Fold(lambda server: like, clip=2.0)
    rng, sheet = np.random.default_rng(3), fold_layout(fold, SERVER)
    reports = [
        (entered(t, float(t + 1)), {n: rng.normal(size=leaf.shape).astype(np.float32) for n, leaf in like.items()})
        for t in range(6)
    ]
    part = PartialSums(sheet, tmp_path)
    for i, (entry, tree) in enumerate(reports):
        views, whole = view_tree_and_array(pack_tree(tree))
        assert whole is not None and refusal(sheet, views, entry.weight, whole) is None
        part.add(0, entry, views, whole if i % 3 else None)
        if i == 3:
            part.freeze().write()
            part.close()
            part = PartialSums(sheet, tmp_path)
    acc = aggregation.zero(fold, SERVER)
    for entry, tree in reports:
        aggregation.add(fold, acc, Report(entry.task, 0, tree, entry.weight, {}), Context(0, 0.0, 0, {}))
    assert part.count(0) == 6 and same(part.bucket_sums(0), aggregation.save(acc))
    part.close()


def test_a_sheet_survives_its_text_and_has_no_values() -> None:
    sheet = fold_layout(fold_of(model(), clip=0.1, bound=0.3), SERVER)
    back = layout_from_json(layout_to_json(sheet))
    assert (back.scales, back.total_weight, back.clip) == (sheet.scales, sheet.total_weight, sheet.clip)
    assert [(n, v.shape, v.dtype) for n, v in back.like.items()] == [(n, v.shape, v.dtype) for n, v in model().items()]
    assert not any(v.any() for v in back.like.values()) and layout_to_json(back) == layout_to_json(sheet)


def test_refusals_are_those_of_the_simulation() -> None:
    fold = fold_of(model(), bound=8.0)
    sheet, acc = fold_layout(fold, SERVER), aggregation.zero(fold, SERVER)
    odd = [model() | {"b": np.array(v)} for v in (np.nan, 9.0, -9.0)] + [model() | {"c": np.zeros(1)}, {}, model()]
    for tree in odd:
        for weight in (1.0, 0.0, 2.0**25, np.nan):
            report = Report(0, 0, tree, weight, {"factor": 1.0, "into": 0.0})
            assert refusal(sheet, tree, weight) == aggregation.check_and_add(fold, acc, report, Context(0, 0.0, 0, {}))
    tight = fold_of(model(), clip=1e-13)
    why = aggregation.check_and_add(
        tight,
        aggregation.zero(tight, SERVER),
        Report(0, 0, model(), 1.0, {"factor": 1.0, "into": 0.0}),
        Context(0, 0.0, 0, {}),
    )
    assert refusal(fold_layout(tight, SERVER), model(), 1.0) == why is not None


def test_too_much_weight_is_refused_and_changes_nothing() -> None:
    fold = fold_of(model(), total_weight=10.0)
    part = PartialSums(fold_layout(fold, SERVER), None)
    part.add(0, entered(0, 6.0), model(0))
    with pytest.raises(Refused, match="raise the fold's total_weight"):
        part.add(0, entered(1, 6.0), model(1))
    part.add(0, entered(2, 6.0, into="extra"), model(2))
    part.add(1, entered(1, 6.0), model(1))
    assert same(part.bucket_sums(0), reference(fold, [(entered(0, 6.0), model(0)), (entered(2, 6.0, into="extra"), model(2))]))


def test_a_task_enters_a_bucket_once() -> None:
    part = PartialSums(fold_layout(fold_of(model()), SERVER), None)
    part.add(0, entered(7), model())
    with pytest.raises(RunFailed, match="internal error: task 7 was accepted twice: bucket 0"):
        part.add(0, entered(7), model())
    assert part.count(0) == 1 and part.bucket_sums(1) is None


def durable(folder: Path) -> PartialSums:
    return PartialSums(fold_layout(fold_of(model()), SERVER), folder)


def test_what_was_written_is_found_and_what_was_not_is_not(tmp_path: Path) -> None:
    part = durable(tmp_path)
    assert not part.dirty and part.recovered_entries() == {}
    part.add(0, entered(0), model(0))
    part.add(1, entered(1, into="extra"), model(1))
    assert part.dirty
    frozen = part.freeze()
    part.add(0, entered(2), model(2))
    frozen.write()
    assert frozen.tasks == (0, 1) and part.dirty
    again = durable(tmp_path)
    assert again.recovered_entries() == {0: [entered(0)], 1: [entered(1, into="extra")]} and not again.damages
    assert same(again.bucket_sums(0), reference(fold_of(model()), [(entered(0), model(0))]))
    assert same(again.bucket_sums(1), reference(fold_of(model()), [(entered(1, into="extra"), model(1))]))
    with pytest.raises(RunFailed, match="already"):
        again.add(0, entered(0), model(0))
    again.add(0, entered(2), model(2))
    last = again.freeze()
    last.write()
    assert last.tasks == (2,) and not again.dirty
    once_more = durable(tmp_path)
    assert same(once_more.bucket_sums(0), reference(fold_of(model()), [(entered(0), model(0)), (entered(2), model(2))]))
    assert once_more.recovered_entries()[0] == [entered(0), entered(2)]


def test_frozen_sums_are_written_once_and_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = durable(tmp_path)
    part.add(0, entered(0), model(0))
    old = part.freeze()
    part.add(0, entered(1), model(1))
    new = part.freeze()
    assert new.tasks == (0, 1) and not part.dirty
    with pytest.raises(RuntimeError, match="stale"):
        old.write()
    real = snapshots.SnapshotStore.write

    def meanwhile(*args: Any) -> None:
        with pytest.raises(RuntimeError, match="still being written"):
            part.freeze()
        part.add(0, entered(2), model(2))
        part.discard(5)
        real(*args)

    monkeypatch.setattr(snapshots.SnapshotStore, "write", meanwhile)
    new.write()
    assert part.dirty and part.freeze().tasks == (2,)
    with pytest.raises(RuntimeError, match="written"):
        new.write()
    assert durable(tmp_path).recovered_entries()[0] == [entered(0), entered(1)]


def test_without_a_folder_nothing_is_written_or_remembered_and_the_same_steps_serve() -> None:
    part = PartialSums(fold_layout(fold_of(model()), SERVER), None)
    part.add(0, entered(0), model(0))
    frozen = part.freeze()
    assert (frozen.tasks, frozen.images) == ((), ()) and not part.dirty and not part._pending
    frozen.write()
    assert part.count(0) == 1


def test_discarded_buckets_leave_neither_files_nor_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial_sums, "SEGMENT", 2000)
    part, sizes = durable(tmp_path), []
    for bucket in range(36):
        for i in range(5):
            part.add(bucket, entered(5 * bucket + i), model(i))
            part.freeze().write()
        part.add(bucket + 1, entered(10_000 + bucket), model(1))  # there is always a live bucket
        part.discard(bucket)
        sizes.append(sum(p.stat().st_size for p in tmp_path.iterdir()))
        if bucket % 12 == 11:
            part.freeze().write()
            part.close()
            part = durable(tmp_path)
            assert part.recovered_entries() == {bucket + 1: [entered(10_000 + bucket)]} and not part.damages
    assert max(sizes) < 5000  # all of the log would have some 23,000 bytes
    assert len(part._buckets) == 1 and len(part._spares) <= 4 and len(part._pending) <= 1
    assert sizes[-1] > 0 and len(list(tmp_path.glob("*.log"))) <= 3


def test_a_bucket_in_several_segments_of_the_log_is_found_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial_sums, "SEGMENT", 500)
    part = durable(tmp_path)
    for task in range(40):
        part.add(task % 2, entered(task), model(task))
        part.freeze().write()
    assert len(list(tmp_path.glob("*.log"))) > 3
    again = durable(tmp_path)
    assert [e.task for e in again.recovered_entries()[1]] == list(range(1, 40, 2))
    again.discard(0), again.discard(1)
    again.add(2, entered(50), model())
    again.freeze().write()
    assert len(list(tmp_path.glob("*.log"))) > 3  # the older snapshot still names them
    again.freeze().write()
    assert len(list(tmp_path.glob("*.log"))) == 1


def test_recycled_memory_begins_at_zero(tmp_path: Path) -> None:
    part = durable(tmp_path)
    for bucket in range(4):
        part.add(bucket, entered(bucket), model(bucket))
        part.add(bucket, entered(100 + bucket, into="extra"), model(bucket))
        part.freeze().write()
        expected = [(entered(bucket), model(bucket)), (entered(100 + bucket, into="extra"), model(bucket))]
        assert same(part.bucket_sums(bucket), reference(fold_of(model()), expected))
        assert same(durable(tmp_path).bucket_sums(bucket), reference(fold_of(model()), expected))
        part.discard(bucket)


@pytest.mark.parametrize("room", [10, 300, 700])
def test_a_full_disk_is_one_sentence_and_the_older_snapshot_is_whole(tmp_path: Path, room: int) -> None:
    part = durable(tmp_path)
    part.add(0, entered(0), model(0))
    part.freeze().write()
    for task in range(1, 5):
        part.add(0, entered(task, into=f"sum{task}"), model(task))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        with pytest.raises(RunFailed, match=r"cannot be written to .*free some space"):
            part.freeze().write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert part.dirty
    copy = tmp_path.with_name("copy")
    subprocess.run(["cp", "-r", tmp_path, copy], check=True)
    older = durable(copy)
    assert older.recovered_entries() == {0: [entered(0)]}
    part.add(0, entered(9), model(9))
    part.freeze().write()
    assert [e.task for e in durable(tmp_path).recovered_entries()[0]] == [0, 1, 2, 3, 4, 9]


CHILD = """
import sys, random
from pathlib import Path
from tests.network.frontend.test_partial_sums import durable, entered, model
rng, part, task = random.Random(int(sys.argv[2])), durable(Path(sys.argv[1])), int(sys.argv[3])
print("ready", flush=True)
while True:
    for _ in range(rng.randrange(1, 4)):
        part.add(task % 2, entered(task, 1.0 + task % 7, into="extra" if task % 5 == 0 else ""), model(task))
        task += 1
    frozen = part.freeze()
    frozen.write()
    print(*frozen.tasks, flush=True)
"""


def killed(folder: Path, seed: int, first: int, seconds: float) -> list[int]:
    """What a process said was safe until it was killed."""
    command = [sys.executable, "-c", CHILD, str(folder), str(seed), str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]) as child:
        assert child.stdout is not None and select.select([child.stdout], [], [], 60)[0]
        assert child.stdout.readline() == b"ready\n"
        time.sleep(seconds)
        child.send_signal(signal.SIGKILL)
        said = child.stdout.read()
    return [int(task) for task in said[: said.rfind(b"\n") + 1].split()]


def kill_often(folder: Path, seed: int, kills: int) -> None:
    """Kill the process that adds to one folder again and again: what it said was safe is found, and its sums fit what is found."""
    rng, safe, first = np.random.default_rng(seed), set[int](), 0
    for turn in range(kills):
        safe |= set(killed(folder, 100 * seed + turn, first, float(rng.uniform(0.02, 0.1))))
        part = durable(folder)
        result = [(bucket, e) for bucket, entries in part.recovered_entries().items() for e in entries]
        tasks = [e.task for _, e in result]
        assert safe <= set(tasks) and len(set(tasks)) == len(tasks)
        for bucket in part.recovered_entries():
            here = [(e, model(e.task)) for b, e in result if b == bucket]
            assert same(part.bucket_sums(bucket), reference(fold_of(model()), here))
        part.close()
        safe, first = set(tasks), max([*tasks, first]) + 1
    assert safe


@pytest.mark.parametrize("seed", range(2))
def test_a_kill_at_any_moment_loses_nothing_that_was_safe(tmp_path: Path, seed: int) -> None:
    kill_often(tmp_path, seed, kills=2)


def test_reports_are_added_while_a_thread_writes(tmp_path: Path) -> None:
    fold = fold_of({"w": np.zeros(5000, np.float32)})
    sheet = fold_layout(fold, SERVER)
    part, writing = PartialSums(sheet, tmp_path), threading.Thread()
    trees = [{"w": np.random.default_rng(i).normal(size=5000).astype(np.float32)} for i in range(5)]
    task, commits, meanwhile, tasks = -1, 0, 0, list[int]()
    while commits < 3:
        part.add(0, entered(task := task + 1), trees[task % 5])
        meanwhile += writing.is_alive()
        if part.dirty and not writing.is_alive():
            frozen = part.freeze()
            tasks += frozen.tasks
            writing, commits = threading.Thread(target=frozen.write), commits + 1
            writing.start()
    writing.join()
    assert meanwhile  # some were added during a write
    again = PartialSums(sheet, tmp_path)
    assert [e.task for e in again.recovered_entries()[0]] == tasks == list(range(task + 1))
    assert same(again.bucket_sums(0), reference(fold, [(entered(t), trees[t % 5]) for t in tasks]))


class Killed(BaseException):
    """The machine lost its power."""


class Disk:
    """Counts what is done to files, stops at a given step, and forgets at random what was not made to last by then."""

    def __init__(self, patch: pytest.MonkeyPatch, stop: int, seed: int, *, power: bool) -> None:
        self.left, self.rng, self.power = stop, np.random.default_rng(seed), power
        self.real = {n: getattr(os, n) for n in ("open", "close", "pwrite", "fdatasync", "fsync", "unlink")}
        self.undo: list[tuple[int, int, bytes, int]] = []  # handle, place, what was there, length of the file
        self.made: list[str] = []
        self.handles: set[int] = set()
        for name in self.real:
            patch.setattr(os, name, getattr(self, name))

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed

    def open(self, path: Any, flags: int, mode: int = 0o777) -> int:
        new = bool(flags & os.O_CREAT) and not Path(path).exists()
        if new:
            self.step()
            self.made.append(str(path))
        handle = self.real["open"](path, flags, mode)
        self.handles.add(handle)
        return handle

    def close(self, handle: int) -> None:
        self.handles.discard(handle)
        self.real["close"](handle)

    def pwrite(self, handle: int, data: Any, at: int) -> int:
        self.undo.append((handle, at, os.pread(handle, len(data), at), os.fstat(handle).st_size))
        if self.left == 0:  # the last one is cut short
            self.real["pwrite"](handle, data[: int(self.rng.integers(len(data) + 1))], at)
        self.step()
        return self.real["pwrite"](handle, data, at)

    def fdatasync(self, handle: int) -> None:
        self.step()
        self.undo = [one for one in self.undo if one[0] != handle]

    def fsync(self, handle: int) -> None:
        self.step()
        self.made = []

    def unlink(self, path: Any) -> None:
        self.step()
        self.real["unlink"](path)

    def lose(self) -> None:
        """What a machine without power forgets; a process that is killed forgets nothing."""
        for handle, at, old, size in reversed(self.undo) if self.power else ():
            if self.rng.random() < 0.5:
                self.real["pwrite"](handle, old, at)
                if self.rng.random() < 0.5:
                    os.ftruncate(handle, max(size, at + len(old)))
        for path in self.made if self.power else ():
            if self.rng.random() < 0.5:
                Path(path).unlink(missing_ok=True)


def lived(folder: Path, safe: dict[int, int], task: int, live: set[int]) -> None:
    """A few commits of a transmitter: buckets come and go, the log changes its segment; `safe` says what may not be lost."""
    part = durable(folder)
    for bucket in list(part.recovered_entries()):
        if bucket not in live:
            part.discard(bucket)
    for turn in range(7):
        for _ in range(1 + turn % 3):
            bucket = task // 4
            live.add(bucket)
            part.add(bucket, entered(task, 1.0 + task % 7, into="extra" if task % 5 == 0 else ""), model(task))
            task += 1
        frozen = part.freeze()
        frozen.write()
        safe |= {t: t // 4 for t in frozen.tasks}
        gone = min(live)
        if len(live) > 2:
            live.remove(gone)
            for t in [t for t, b in safe.items() if b == gone]:
                del safe[t]
            part.discard(gone)


def checked(folder: Path, safe: dict[int, int]) -> int:
    """Everything safe is found, and sums are those of what is found; the next task."""
    part, last = durable(folder), -1
    result = part.recovered_entries()
    assert all(task in {e.task for e in result.get(bucket, [])} for task, bucket in safe.items()), part.damages
    for bucket, entries in result.items():
        assert len({e.task for e in entries}) == len(entries) and all(e.task // 4 == bucket for e in entries)
        assert same(part.bucket_sums(bucket), reference(fold_of(model()), [(e, model(e.task)) for e in entries]))
        last = max(last, *(e.task for e in entries))
    part.close()
    return last + 1


def stop_everywhere(folder: Path, monkeypatch: pytest.MonkeyPatch, *, power: bool, seed: int = 0) -> None:
    """Stop a transmitter at its first step, at its second, and so on until it is not stopped; each time twice in a row."""
    monkeypatch.setattr(partial_sums, "SEGMENT", 400)
    for stop in range(10**6):
        own, safe, live, task = folder / str(stop), dict[int, int](), set[int](), 0
        for life in range(2):  # the second one begins where the first one ended
            with monkeypatch.context() as patch:
                disk = Disk(patch, stop, (seed << 20) + 2 * stop + life, power=power)
                try:
                    lived(own, safe, task, live)
                except Killed:
                    patch.undo()
                    disk.lose()
            for handle in disk.handles:
                os.close(handle)
            task = max(checked(own, safe), task) + 20
        if disk.left >= 0:
            assert stop > 40
            return


@pytest.mark.parametrize("power", [False, True], ids=["process killed", "power lost"])
def test_stopped_at_every_single_step_nothing_safe_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, power: bool) -> None:
    stop_everywhere(tmp_path, monkeypatch, power=power)


def test_memory_per_report_of_a_live_bucket_is_bounded(tmp_path: Path) -> None:
    import tracemalloc

    part = durable(tmp_path)
    part.add(0, entered(0), model(0))
    part.freeze().write()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for task in range(1, 2001):
            part.add(0, entered(task), model(1))
            if task % 500 == 0:
                part.freeze().write()
        assert not part.dirty
        assert tracemalloc.get_traced_memory()[0] - before < 2000 * 150
    finally:
        tracemalloc.stop()


def test_sums_are_exact_units() -> None:
    part = PartialSums(fold_layout(fold_of(model()), SERVER), None)
    part.add(0, entered(0, 0.1), model(0))
    loaded = aggregation.load(fold_of(model()), SERVER, part.bucket_sums(0) or {})
    assert loaded.sums[""].weight == exact.weight_units(0.1)


def test_a_bucket_whose_number_was_used_before_is_found_alone(tmp_path: Path) -> None:
    """A server that goes back to a checkpoint throws away what its journal does not know, and counts on from there."""
    fold = fold_of(model())
    sheet = fold_layout(fold, SERVER)
    first = PartialSums(sheet, tmp_path)
    for bucket, tasks in ((1, (0, 1)), (2, (2, 3))):
        for task in tasks:
            first.add(bucket, entered(task), model(task))
    first.freeze().write()
    first.close()
    second = PartialSums(sheet, tmp_path)
    second.discard(1)
    second.add(1, entered(7), model(7))
    second.freeze().write()
    second.close()
    third = PartialSums(sheet, tmp_path)
    assert third.damages == ()
    assert {b: [e.task for e in entries] for b, entries in third.recovered_entries().items()} == {2: [2, 3], 1: [7]}
    assert same(third.bucket_sums(1), reference(fold, [(entered(7), model(7))]))
    third.close()
