"""Samples that change device: a device trains on the very bytes that it got, and keeps none that it needs no more."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from fedfleet.core.errors import Refused, RunFailed
from fedfleet.core.tensor_format import pack_tree, unpack_tree
from fedfleet.network.device.device_store import DamagedMemory, DeviceStore
from fedfleet.network.device.shared_samples import (
    give_samples,
    pack_samples,
    receive_samples,
    unpack_samples,
    with_samples_of,
)
from tests.network.device.fake import toy_kit

OWN = np.arange(5)


@pytest.fixture
def runtime():
    made = toy_kit()
    data = replace(made.task.dataset, x=np.arange(18, dtype=np.float32).reshape(9, 2))
    made = replace(made, task=replace(made.task, dataset=data))
    return replace(made, make_executor=lambda task: replace(made.execute, name=f"on {len(task.dataset.y)}"))


@pytest.fixture
def store(tmp_path):
    with closing(DeviceStore(tmp_path / "device")) as made:
        yield made


def samples(runtime, ids, value):
    """Samples of another device, whose inputs all have this value."""
    data, ids = runtime.task.dataset, np.array(ids)
    x = np.full((len(ids), *data.x.shape[1:]), value, data.x.dtype)
    return pack_samples(ids, {"x": x, "y": np.zeros((len(ids), *data.y.shape[1:]), data.y.dtype)})


def test_what_a_device_gives_is_what_it_holds(runtime, store):
    rows = np.array([3, 1])
    given = unpack_samples(give_samples(runtime, store, rows), rows)
    assert np.array_equal(given["x"], runtime.task.dataset.x[rows])
    assert np.array_equal(given["y"], runtime.task.dataset.y[rows])


def test_a_device_trains_on_the_bytes_that_came_in_the_order_of_its_task(runtime, store):
    receive_samples(runtime, store, samples(runtime, [100, 101], 7))
    receive_samples(runtime, store, samples(runtime, [101, 102], 8))  # the same sample may come again
    holding, rows = with_samples_of(runtime, store, np.array([2, 101, 0, 100]))
    x = holding.task.dataset.x[rows]
    assert np.array_equal(x[[0, 2]], runtime.task.dataset.x[[2, 0]])
    assert (x[1] == 8).all()
    assert (x[3] == 7).all()
    assert holding.execute.name == f"on {len(runtime.task.dataset.y) + 3}"
    # Its own samples alone need no other executor.
    assert with_samples_of(runtime, store, OWN)[0] is runtime


def test_what_came_may_be_given_on(runtime, store):
    receive_samples(runtime, store, samples(runtime, [100], 7))
    given = unpack_samples(give_samples(runtime, store, np.array([100, 4])), np.array([100, 4]))
    assert (given["x"][0] == 7).all()


def test_samples_that_no_task_names_go_one_task_later(runtime, store):
    receive_samples(runtime, store, samples(runtime, [100, 101], 7))
    with_samples_of(runtime, store, np.array([100, 101]))
    with_samples_of(runtime, store, np.array([0, 100]))
    give_samples(runtime, store, np.array([101]))  # the turn before could be planned again
    with_samples_of(runtime, store, np.array([0, 100]))
    assert unpack_tree(store.samples())["ids"].tolist() == [100]
    with pytest.raises(RunFailed, match="does not hold 1 of the 2 samples"):
        with_samples_of(runtime, store, np.array([0, 101]))


def test_samples_of_another_kind_are_refused(runtime, store):
    good = unpack_tree(samples(runtime, [100], 7))
    for change in ({"x": good["x"].astype(np.int8)}, {"x": good["x"][..., :0]}, {"y": good["y"][:0]}, {"odd": good["x"]}):
        with pytest.raises(Refused):
            receive_samples(runtime, store, pack_tree({**good, **change}))
    assert store.samples() is None
    with pytest.raises(Refused, match="other samples"):
        unpack_samples(pack_tree(good), np.array([101]))


def test_damage_is_found(runtime, store):
    receive_samples(runtime, store, samples(runtime, [100], 7))
    path = store.folder / "samples.bin"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedMemory):
        with_samples_of(runtime, store, np.array([100]))
    store.forget()
    assert store.samples() is None
