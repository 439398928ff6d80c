"""The memory of processes, as the system tells it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import pytest

from fedfleet.network.operations import process_memory
from fedfleet.network.operations.process_memory import infrequent_gc, memory_of, memory_of_all


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
