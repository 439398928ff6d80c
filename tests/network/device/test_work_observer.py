"""An observer is told of each computation, each report and each last word, in this order."""

from contextlib import contextmanager

import numpy as np
import pytest

from fedfleet.core.tensor_format import pack_tree
from fedfleet.network.device.client_loop import Device, DeviceOptions
from fedfleet.network.device.device_store import DeviceStore
from fedfleet.network.device.server_calls import Connection
from tests.network.device.fake import swift, toy_kit

W = pack_tree({"w": np.ones(3, np.float32)})


class Recorder:
    """Writes down what it is told."""

    def __init__(self, error=None):
        self.told, self.error = [], error

    @contextmanager
    def computing(self, work):
        self.told.append(("begins", work.task))
        if self.error is not None:
            raise self.error
        yield
        self.told.append(("ends", work.task))

    def on_report(self, head):
        self.told.append(("reported", head.task, head.declined))

    def on_end(self, head, end):
        self.told.append((end, head.task))


@pytest.fixture
def attend(fake, tmp_path):
    def run(observer):
        connection, store = Connection(fake.address), DeviceStore(tmp_path / "s")
        try:
            return Device(connection, store, DeviceOptions(observer=observer), toy_kit, lambda text: None, swift()).run()
        finally:
            connection.close()
            store.close()

    return run


def test_all_steps_of_a_task_are_told_in_order(fake, attend):
    tasks = [fake.give(W).task for _ in range(2)]
    recorder = Recorder()
    assert attend(recorder).tasks == 2
    assert recorder.told == [
        step for task in tasks for step in (("begins", task), ("ends", task), ("reported", task, ""), ("safe", task))
    ]


def test_a_lack_of_memory_is_a_decline_that_says_so(fake, attend):
    task = fake.give(W).task
    recorder = Recorder(MemoryError("Unable to allocate 5 MiB"))
    assert attend(recorder).declined == 1
    assert recorder.told[:2] == [("begins", task), ("reported", task, "out of memory: Unable to allocate 5 MiB")]


def test_a_lack_of_memory_is_named_where_training_says_it_in_its_own_words(fake, attend):
    from fedfleet.core.errors import RunFailed

    error = RunFailed("client 4, task 0: local training failed: MemoryError: no room")
    error.__cause__ = MemoryError("no room")
    task = fake.give(W).task
    recorder = Recorder(error)
    attend(recorder)
    assert recorder.told[1] == ("reported", task, f"out of memory: {error}")


def test_other_failures_keep_their_words(fake, attend):
    task = fake.give(W).task
    recorder = Recorder(ValueError("it cannot be trained"))
    attend(recorder)
    assert recorder.told[1] == ("reported", task, "it cannot be trained")
