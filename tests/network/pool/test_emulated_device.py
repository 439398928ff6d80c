"""An emulated device: its clients compute in turn, its memory is capped, and it tells its pool what each task took."""

import subprocess
import sys
import threading
import time

import pytest

from fedfleet.network.pool.emulated_device import CRASHED, FINISHED, GAVE_UP, TurnRecorder, be_device, memory_cap, own_memory
from fedfleet.network.protocol import fleet_pb2 as pb
from tests.network.device.fake import toy_kit
from tests.network.device.test_work_observer import W


def test_memory_beyond_the_cap_is_refused_and_the_cap_is_lifted():
    """In a process of its own: a limit that stays by mistake would meet other tests."""
    code = """
import resource
from fedfleet.network.pool.emulated_device import memory_cap
import numpy as np
before = resource.getrlimit(resource.RLIMIT_DATA)
try:
    with memory_cap(64):
        np.ones((16 << 20) // 8)
        np.ones((256 << 20) // 8)
        print("not refused")
except MemoryError as error:
    print("refused", resource.getrlimit(resource.RLIMIT_DATA) == before)
np.ones((256 << 20) // 8)
with memory_cap(None):
    np.ones((256 << 20) // 8)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "refused True\n"


def recorder(client, turn, told):
    return TurnRecorder({"client": client, "memory_mb": None}, turn, told.append)


def test_clients_of_a_device_compute_one_at_a_time():
    turn, inside, most, told = threading.Lock(), [], [], []

    def compute(client):
        own = recorder(client, turn, told)
        for task in range(20):
            with own.computing(pb.Work(task=100 * client + task, round=task)):
                inside.append(client)
                most.append(len(inside))
                time.sleep(0.0005)
                inside.remove(client)

    threads = [threading.Thread(target=compute, args=(client,)) for client in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1
    assert len(most) == len([row for row in told if row["event"] == "turn"]) == 80


def test_a_turn_that_fails_ends_and_what_it_took_is_told():
    told, turn = [], threading.Lock()
    own = recorder(3, turn, told)
    with pytest.raises(MemoryError), own.computing(pb.Work(task=7, round=2)):
        raise MemoryError("no room")
    assert not turn.locked()
    own.on_report(pb.Report(task=7, declined="out of memory: no room"))
    own.on_end(pb.Report(task=7), "refused")
    _, task, last = told
    assert (task["task"], task["round"], task["client"], task["declined"]) == (7, 2, 3, "out of memory: no room")
    assert task["began"] <= task["ended"]
    assert task["private_mb"] is None or task["private_mb"] > 0
    assert (last["event"], last["end"]) == ("delivered", "refused")


def test_a_process_knows_its_own_memory():
    memory = own_memory()
    assert 10 < memory["rss_mb"] <= memory["peak_mb"]
    assert 0 < memory["private_mb"] <= memory["rss_mb"] + 1


def order(fake, tmp_path, *clients):
    return {
        "device": 0, "join": [],
        "clients": [
            {"client": c, "server": fake.address, "store": str(tmp_path / f"c{c}"), "memory_mb": None} for c in clients
        ],
    }  # fmt: skip


def make_runtime(config, data, fetch):
    return toy_kit(config, fetch)


def test_a_device_plays_its_client_until_the_run_is_over(fake, tmp_path):
    told = []
    task = fake.give(W).task
    assert be_device(order(fake, tmp_path, 4), told.append, make_runtime) == FINISHED
    assert [row["event"] for row in told] == ["turn", "task", "delivered"]
    assert told[1]["task"] == task
    assert told[1]["bytes_up"] > 0
    assert told[2]["end"] == "safe"


def test_a_device_that_cannot_take_part_says_why(fake, tmp_path):
    from fedfleet.core.errors import BadInput

    def refuse(config, data, fetch):
        raise BadInput("the data are not here")

    told = []
    fake.give(W)
    assert be_device(order(fake, tmp_path, 4), told.append, refuse) == GAVE_UP
    assert [(row["event"], row["reason"]) for row in told] == [("gave up", "the data are not here")]


def test_an_error_that_nobody_expected_is_a_crash_and_is_in_the_log(fake, tmp_path, capsys):
    def break_down(config, data, fetch):
        raise ZeroDivisionError("by accident")

    fake.give(W)
    assert be_device(order(fake, tmp_path, 4), lambda row: None, break_down) == CRASHED
    assert "ZeroDivisionError: by accident" in capsys.readouterr().err


def test_a_cap_of_nothing_caps_nothing():
    with memory_cap(None):
        assert bytearray(1 << 20)
