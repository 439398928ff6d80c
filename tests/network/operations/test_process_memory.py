"""The memory of processes, as the system tells it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import pytest

from fedfleet.network.operations import process_memory
from fedfleet.network.operations.process_memory import infrequent_gc, memory_of, memory_of_all, return_freed_memory


def test_this_process_has_memory():
    result = memory_of(os.getpid())
    assert result is not None and result.resident > 1 << 20
    assert result.proportional is None or 0 < result.proportional <= result.resident


def test_processes_that_are_gone_are_left_out():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert memory_of(ended.pid) is None
    assert set(memory_of_all({"here": os.getpid(), "gone": ended.pid})) == {"here"}


def test_a_kernel_that_tells_less_is_read_too(tmp_path, monkeypatch):
    (tmp_path / "5").mkdir()
    (tmp_path / "5/status").write_text("Name:\tpython\nVmRSS:\t    2048 kB\n")
    monkeypatch.setattr(process_memory, "_PROC", tmp_path)
    result = memory_of(5)
    assert result is not None and (result.resident, result.proportional) == (2 << 20, None)


def test_garbage_is_looked_for_seldom_and_afterwards_as_before() -> None:
    before = gc.get_threshold()

    def served() -> None:
        with infrequent_gc():
            assert gc.get_threshold() == (50_000, 20, 50) and gc.get_freeze_count() > 0
            raise RuntimeError("the server failed")

    with pytest.raises(RuntimeError):
        served()
    assert gc.get_threshold() == before and gc.get_freeze_count() == 0


_USED_AGAIN = """
import resource, sys
from fedfleet.network.operations.process_memory import keep_freed_memory
print(keep_freed_memory() if sys.argv[1] == "keep" else True)
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def fill():
    return [bytes(200_000) for _ in range(100)]
fill()
before = faults()
for _ in range(20):
    fill()
print(faults() - before)
"""


def test_freed_memory_is_used_again_before_more_is_asked_for() -> None:
    def page_faults(mode: str) -> int:
        run = subprocess.run([sys.executable, "-c", _USED_AGAIN, mode], capture_output=True, text=True, check=True)
        works, faults = run.stdout.split()
        if works != "True":
            pytest.skip("this C library has no mallopt")
        return int(faults)

    assert page_faults("keep") < 0.1 * page_faults("plain")
    return_freed_memory()  # nothing breaks
