"""The spool keeps reports as they came, survives torn tails, and gives its space back."""

from __future__ import annotations

import resource
import threading
from pathlib import Path

import numpy as np
import pytest

from fedfleet.core.errors import Refused, RunFailed
from fedfleet.network.frontend.report_log import LogEntry
from fedfleet.network.frontend.spool import Spool, read_spool
from fedfleet.network.security.sum_cipher import cipher_of


def entered(task: int) -> LogEntry:
    return LogEntry(task, task, task, 0.0, 1.0, 1.0, "", 0, 0, (), (), 0)


def payload(task: int, size: int = 50) -> bytes:
    return np.random.default_rng(task).bytes(size + task)


def filled(folder: Path, tasks: range, bucket: int = 0) -> Spool:
    spool = Spool(folder)
    for task in tasks:
        spool.add(bucket, entered(task), memoryview(payload(task)))
    spool.sync()
    return spool


def test_reports_come_back_after_a_sync_to_whoever_reads(tmp_path: Path) -> None:
    spool = filled(tmp_path / "s", range(5))
    spool.add(0, entered(9), b"not yet")
    assert spool.dirty
    expected = [(entered(t), payload(t)) for t in range(5)]
    assert read_spool(tmp_path / "s", 0) == expected
    assert read_spool(tmp_path / "s", 1) == []
    spool.sync()
    assert len(read_spool(spool.folder, 0)) == 6 and not spool.dirty
    again = Spool(tmp_path / "s")
    assert again.recovered_entries() == {0: [entered(t) for t in (0, 1, 2, 3, 4, 9)]}
    again.add(0, entered(10), b"")
    again.sync()
    assert [e.task for e, _ in read_spool(again.folder, 0)] == [0, 1, 2, 3, 4, 9, 10]
    spool.close(), again.close()


def test_a_torn_tail_is_cut_off_and_what_comes_next_is_whole(tmp_path: Path) -> None:
    filled(tmp_path / "s", range(3)).close()
    path = tmp_path / "s" / "0.spool"
    whole = path.read_bytes()
    last = len(payload(2)) + 30
    for cut in range(1, last, 7):
        path.write_bytes(whole[:-cut])
        spool = Spool(tmp_path / "s")
        assert [e.task for e in spool.recovered_entries()[0]] == [0, 1]
        assert len(spool.damages) == 1 and "cut off" in spool.damages[0]
        spool.add(0, entered(7), payload(7))
        spool.sync()
        spool.close()
        again = Spool(tmp_path / "s")
        assert not again.damages and [e.task for e in again.recovered_entries()[0]] == [0, 1, 7]
        assert read_spool(again.folder, 0)[-1] == (entered(7), payload(7))
        again.close()


def test_a_damaged_report_in_the_middle_is_left_out_and_said(tmp_path: Path) -> None:
    filled(tmp_path / "s", range(3)).close()
    path = tmp_path / "s" / "0.spool"
    data = bytearray(path.read_bytes())
    data[data.index(payload(1)) + 3] ^= 1
    path.write_bytes(data)
    spool = Spool(tmp_path / "s")
    assert [e.task for e in spool.recovered_entries()[0]] == [0, 2] == [e.task for e, _ in read_spool(spool.folder, 0)]
    assert "damaged" in spool.damages[0]
    spool.close()


def test_discarded_buckets_give_their_space_back(tmp_path: Path) -> None:
    spool = filled(tmp_path / "s", range(3))
    for bucket in range(1, 40):
        spool.add(bucket, entered(bucket), payload(bucket))
        spool.sync()
        spool.add(bucket - 1, entered(1000 + bucket), b"too late")
        spool.discard(bucket - 1)
        assert [p.name for p in (tmp_path / "s").iterdir()] == [f"{bucket}.spool"]
    assert not spool.dirty
    spool.close()
    assert Spool(tmp_path / "s").recovered_entries().keys() == {39}


def test_adding_and_discarding_go_on_while_a_thread_syncs(tmp_path: Path) -> None:
    spool, stop = Spool(tmp_path / "s"), threading.Event()

    def syncing() -> None:
        while not stop.is_set():
            spool.sync()

    thread = threading.Thread(target=syncing)
    thread.start()
    try:
        for task in range(600):
            spool.add(task // 100, entered(task), payload(task))
            if task % 100 == 99 and task < 500:
                spool.discard(task // 100)
    finally:
        stop.set()
        thread.join()
    spool.sync()
    assert read_spool(spool.folder, 5) == [(entered(t), payload(t)) for t in range(500, 600)]
    assert [p.name for p in (tmp_path / "s").iterdir()] == ["5.spool"]
    spool.close()


def test_a_full_disk_is_one_sentence_and_can_be_tried_again(tmp_path: Path) -> None:
    spool = filled(tmp_path / "s", range(3))
    spool.add(0, entered(5), payload(5, 100_000))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(RunFailed, match="free some space"):
            spool.sync()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [e.task for e, _ in read_spool(tmp_path / "s", 0)] == [0, 1, 2]
    spool.sync()
    assert read_spool(spool.folder, 0)[-1] == (entered(5), payload(5, 100_000))
    spool.close()


def test_files_are_private_and_odd_entries_are_refused_at_once(tmp_path: Path) -> None:
    spool = filled(tmp_path / "s", range(1))
    assert (tmp_path / "s").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "s" / "0.spool").stat().st_mode & 0o777 == 0o600
    with pytest.raises(Refused):
        spool.add(0, entered(1)._replace(sum="s" * 300), b"")
    assert not spool.dirty
    spool.close()


def test_payloads_of_a_private_run_are_encrypted(tmp_path: Path) -> None:
    cipher = cipher_of(bytes(32))
    spool = Spool(tmp_path / "s", cipher=cipher)
    for task in range(3):
        spool.add(0, entered(task), memoryview(payload(task)))
    spool.sync()
    spool.close()
    (path,) = (tmp_path / "s").iterdir()
    assert not any(payload(task)[:16] in path.read_bytes() for task in range(3))
    assert read_spool(tmp_path / "s", 0, cipher) == [(entered(t), payload(t)) for t in range(3)]
    assert Spool(tmp_path / "s", cipher=cipher).recovered_entries() == {0: [entered(t) for t in range(3)]}
