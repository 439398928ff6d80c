"""Memories: the newest folded task counts, and who takes a place over remembers nothing of it, also after a restart."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedfleet.network.server.client_state import ClientState


def test_the_last_folded_task_is_remembered(tmp_path: Path) -> None:
    memories = ClientState(3, tmp_path / "m")
    memories.record_folded(1, 4)
    memories.record_folded(1, 9)
    assert memories.memory_task.tolist() == [-1, 9, -1]


def test_a_takeover_forgets_and_so_does_a_report_of_the_device_before(tmp_path: Path) -> None:
    memories = ClientState(2, tmp_path / "m")
    memories.record_folded(0, 4)
    memories.record_takeover(0, 10)
    assert memories.memory_task.tolist() == [-1, -1]
    memories.record_folded(0, 9)  # of the device before, folded later
    assert memories.memory_task[0] == -1
    memories.record_folded(0, 10)
    assert memories.memory_task[0] == 10


def test_a_restart_knows_of_takeovers_and_believes_nothing_else(tmp_path: Path) -> None:
    ClientState(3, tmp_path / "m").record_takeover(1, 6)
    with (tmp_path / "m").open("a") as file:
        file.write('[99, 1]\n"odd"\n[1]\n[1, "x"]\n')
    back = ClientState(3, tmp_path / "m")
    journalled = np.array([2, 5, 7])
    back.restore(journalled)
    assert back.memory_task.tolist() == [2, -1, 7] and journalled.tolist() == [2, 5, 7]
    back.restore(np.array([2, 6, 7]))
    assert back.memory_task.tolist() == [2, 6, 7]
