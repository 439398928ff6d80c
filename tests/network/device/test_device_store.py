"""What a device remembers: whole or not at all, checked, and nobody else's."""

import os
import stat
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.errors import BadInput, Refused, RunFailed
from fedfleet.network.device.device_store import DamagedMemory, DeviceStore, Identity, WaitingReport
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import crc32c

ME = Identity("127.0.0.1:5", "tiny", 3, b"\x01" * 32)


@pytest.fixture
def store(tmp_path):
    one = DeviceStore(tmp_path / "store")
    yield one
    one.close()


def same(a, b):
    return a.keys() == b.keys() and all(
        a[s].keys() == b[s].keys() and all(np.array_equal(a[s][n], b[s][n]) and a[s][n].dtype == b[s][n].dtype for n in a[s])
        for s in a
    )


names = st.text("abc.|/ é", min_size=1, max_size=5)
leaves = st.lists(st.integers(-9, 9), max_size=4).map(lambda v: np.array(v, np.float32)) | st.integers(0, 9).map(np.int64)
trees = st.dictionaries(st.sampled_from(["kept", "second", "feedback", "own"]), st.dictionaries(names, leaves, max_size=3))


@settings(max_examples=25, deadline=None)
@given(trees)
def test_memory_comes_back_as_it_was(tmp_path_factory, slots):
    one = DeviceStore(tmp_path_factory.mktemp("s"))
    one.remember(7, slots)
    assert same(one.memory(7), slots)
    one.close()


def test_only_the_newest_folded_memory_and_newer_ones_are_kept(store):
    for task in (1, 5, 9):
        store.remember(task, {"kept": {"w": np.float32(task)}})
    assert store.memory(-1) == {}
    assert float(store.memory(5)["kept"]["w"]) == 5
    with pytest.raises(DamagedMemory, match="task 1 is missing here"):
        store.memory(1)
    assert float(store.memory(9)["kept"]["w"]) == 9
    store.remember(9, {"kept": {"w": np.float32(8)}})  # trained again
    assert float(store.memory(9)["kept"]["w"]) == 8
    assert len(list((store.folder / "memory").iterdir())) == 1


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_no_damaged_byte_of_memory_passes(tmp_path_factory, at, flip):
    one = DeviceStore(tmp_path_factory.mktemp("s"))
    one.remember(7, {"kept": {"w": np.arange(4, dtype=np.float32)}})
    (path,) = (one.folder / "memory").iterdir()
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= flip
    path.write_bytes(data)
    with pytest.raises(DamagedMemory, match="task 7 is damaged here"):
        one.memory(7)
    one.close()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 255), st.booleans())
def test_no_damaged_report_passes(tmp_path_factory, at, flip, cut):
    one = DeviceStore(tmp_path_factory.mktemp("s"))
    head = pb.Report(task=5, nonce=b"n", weight=2.0, caller=pb.Caller(client=3, secret=b"hidden"))
    one.keep_report(WaitingReport(head, b"payload", 12.5))
    whole = one.report()
    assert whole is not None and (whole.head.task, whole.payload, whole.until) == (5, b"payload", 12.5)
    assert b"hidden" not in (one.folder / "report.bin").read_bytes()
    data = bytearray((one.folder / "report.bin").read_bytes())
    if cut:
        del data[at % len(data) :]
    else:
        data[at % len(data)] ^= flip
    (one.folder / "report.bin").write_bytes(data)
    assert one.report() is None
    one.close()


def test_who_it_is_survives_and_is_private(tmp_path):
    one = DeviceStore(tmp_path / "s")
    assert one.identity() is None
    first = one.attempt()
    one.set_identity(ME)
    assert one.attempt() != first
    one.close()
    again = DeviceStore(tmp_path / "s")
    assert again.identity() == ME
    assert "\\x01" not in repr(ME)
    for path in (tmp_path / "s").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o700
    (tmp_path / "s" / "identity.json").write_text("{")
    assert again.identity() is None
    again.close()


def test_what_another_life_left_behind_goes(store):
    store.set_identity(ME)
    store.remember(3, {"kept": {}})
    store.keep_report(WaitingReport(pb.Report(task=3), b"", 1.0))
    store.set_identity(ME)  # the same client: nothing goes
    assert store.memory(3) == {"kept": {}} and store.report() is not None
    store.set_identity(Identity(ME.server, "other", 3, b"\x02" * 32))
    assert store.report() is None
    with pytest.raises(DamagedMemory):
        store.memory(3)


def test_one_device_at_a_time(store):
    with pytest.raises(BadInput, match="another device uses"):
        DeviceStore(store.folder)


def test_a_folder_that_cannot_be_is_refused_in_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"--store: .* cannot be used"):
        DeviceStore(tmp_path / "file" / "inside")


def test_a_full_disk_is_said(store, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunFailed, match="No space left on device"):
        store.remember(1, {})
    monkeypatch.undo()
    store.remember(1, {})
    assert store.memory(1) == {}


def test_blobs_are_kept_by_their_names_and_checked(store):
    store.keep_blob("ab" * 32, b"frozen")
    assert store.blob("ab" * 32, 6, crc32c(b"frozen")) == b"frozen"
    assert store.blob("ab" * 32, 7, crc32c(b"frozen")) is None
    assert store.blob("ab" * 32, 6, 0) is None
    assert store.blob("cd" * 32, 6, 0) is None
    for name in ("../identity.json", "", "AB", "/etc/passwd"):
        with pytest.raises(Refused, match="content hash"):
            store.keep_blob(name, b"")


def test_killed_while_it_writes_a_device_finds_the_old_or_the_new(tmp_path):
    """A process that writes memory and reports without end is killed; what is there afterwards is whole."""
    code = f"""
        import numpy as np
        from pathlib import Path
        from fedfleet.network.protocol import fleet_pb2 as pb
        from fedfleet.network.device.device_store import DeviceStore, WaitingReport
        store = DeviceStore(Path({str(tmp_path / "s")!r}))
        for i in range(10**9):
            print("ready", flush=True) if i == 1 else None
            store.remember(7, {{"kept": {{"w": np.full(50_000, i, np.float32)}}}})
            store.keep_report(WaitingReport(pb.Report(task=i), bytes([i % 256]) * 50_000, 1.0))
    """
    for wait in (0.02, 0.11, 0.23) if os.environ.get("FEDFLEET_SOAK") else (0.07,):
        child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE)
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        time.sleep(wait)
        child.kill()
        child.wait()
        child.stdout.close()
        store = DeviceStore(tmp_path / "s")
        result, report = store.memory(7)["kept"]["w"], store.report()
        assert len(set(result.tolist())) == 1
        assert report is not None and set(report.payload) == {report.head.task % 256}
        assert not list(store.folder.rglob("*.part"))
        store.close()
