"""The memory of processes, as the system tells it."""

import os
import subprocess
import sys

from fedfleet.network.operations import process_memory
from fedfleet.network.operations.process_memory import resident, resident_all


def test_this_process_has_memory():
    found = resident(os.getpid())
    assert found is not None and found.resident > 1 << 20
    assert found.proportional is None or 0 < found.proportional <= found.resident


def test_processes_that_are_gone_are_left_out():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert resident(ended.pid) is None
    assert set(resident_all({"here": os.getpid(), "gone": ended.pid})) == {"here"}


def test_a_kernel_that_tells_less_is_read_too(tmp_path, monkeypatch):
    (tmp_path / "5").mkdir()
    (tmp_path / "5/status").write_text("Name:\tpython\nVmRSS:\t    2048 kB\n")
    monkeypatch.setattr(process_memory, "_PROC", tmp_path)
    found = resident(5)
    assert found is not None and (found.resident, found.proportional) == (2 << 20, None)
