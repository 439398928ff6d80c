"""What work took is told in units that mean something.

One piece of work: what is declined, what is kept, what is told.
"""

import time

import numpy as np
import pytest

from fedfleet.core.errors import Refused, RunFailed
from fedfleet.core.tensor_format import pack_tree
from fedfleet.network.device.caps import Caps
from fedfleet.network.device.device_store import DeviceStore
from fedfleet.network.device.server_calls import Connection
from fedfleet.network.device.work import (
    TaskRefusal,
    WorkContext,
    do_task,
    frozen_fetcher,
    mark,
    peak_bytes,
    usage_since,
)
from fedfleet.network.protocol import fleet_pb2 as pb
from tests.network.device.fake import swift, toy_kit


def test_what_was_used_since_a_mark():
    line = Connection("127.0.0.1:1")
    line.bytes_down, line.bytes_up = 10, 20
    start = mark(line)
    until = time.process_time() + 0.05
    while time.process_time() < until:
        np.zeros(1000).sum()
    line.bytes_down, line.bytes_up = 15, 27
    used = usage_since(start, line, samples=3, nbytes=100, downloaded=1000)
    assert (used.bytes_down, used.bytes_up, used.samples) == (1005, 107, 3)
    assert used.wall_seconds >= 0.04 and used.cpu_seconds >= 0.04
    line.close()


def test_the_peak_is_in_bytes():
    assert 10e6 < peak_bytes() < 1e12
    held = np.ones(30_000_000 // 8)
    assert peak_bytes() >= 30e6
    del held


W = pack_tree({"w": np.ones(3, np.float32)})
WHO = pb.Caller(client=4, secret=b"s" * 32)


@pytest.fixture
def bench(fake, tmp_path):
    line, store = Connection(fake.address), DeviceStore(tmp_path / "s")
    yield WorkContext(line, WHO, store, Caps(), swift())
    line.close(), store.close()


def do(bench, work, kit=None, **caps):
    return do_task(bench, kit or toy_kit(), work, memoryview(W), time.time() + 20, 0.5)


def test_memory_is_on_the_disk_before_there_is_a_report(fake, bench):
    head, payload = do(bench, fake.give(W, task=6))
    assert float(bench.store.memory(6)["slot"]["w"]) == 7.0
    assert bench.store.memory(6)["empty"] == {}
    assert head.nbytes == len(payload) and head.spent["download"] >= 0.5


def test_clients_that_remember_nothing_need_no_memory(fake, bench):
    head, _ = do(bench, fake.give(W, task=6, memory_task=5), toy_kit(remembers=False))
    assert head.task == 6 and not list((bench.store.folder / "memory").iterdir())


def test_a_disk_that_is_full_declines_the_task(fake, bench, monkeypatch):
    def full(self, path, data):
        raise RunFailed("no space left")

    monkeypatch.setattr(DeviceStore, "_write", full)
    with pytest.raises(TaskRefusal, match="no space left"):
        do(bench, fake.give(W))


def test_a_model_that_does_not_fit_is_declined(fake, bench):
    with pytest.raises(TaskRefusal, match="not in safetensors form"):
        do_task(bench, toy_kit(), fake.give(b"nonsense"), memoryview(b"nonsense"), time.time() + 20, 0.0)


def test_work_of_a_kind_that_nobody_knows_is_declined(fake, bench):
    work = fake.give(W)
    work.kind = 77  # of a newer server
    with pytest.raises(TaskRefusal, match="77"):
        do(bench, work)


def test_frozen_weights_beyond_the_caps_or_without_a_name_are_refused(fake, bench):
    work = fake.give(W)
    with pytest.raises(Refused, match="frozen weights of this device differ"):
        frozen_fetcher(bench, work, time.time() + 5)("x")
    work.frozen.CopyFrom(fake.add_blob(W))
    work.frozen.nbytes = 1 << 50
    with pytest.raises(Refused, match="frozen part of the model has"):
        frozen_fetcher(bench, work, time.time() + 5)("x")
