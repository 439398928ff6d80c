"""Lines outlive a kill: what was torn is passed over, and what is added after it is whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedfleet.core.errors import RunFailed
from fedfleet.network.server.durable_records import ClientState, Rejections, add_line, read_lines


def test_lines_come_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "said.jsonl"
    assert read_lines(path) == []
    for said in ([1, "a\nb"], {"b": 2}, None):
        add_line(path, said)
    assert read_lines(path) == [[1, "a\nb"], {"b": 2}, None]


def test_a_torn_line_is_lost_alone(tmp_path: Path) -> None:
    path = tmp_path / "said.jsonl"
    add_line(path, [1])
    add_line(path, [2])
    path.write_bytes(path.read_bytes()[:-3])
    assert read_lines(path) == [[1]]
    add_line(path, [3])
    assert read_lines(path) == [[1], [3]]


def test_a_disk_that_will_not_have_it_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="free some space, then resume"):
        add_line(tmp_path / "nowhere" / "said.jsonl", 1)


def test_a_rejection_is_there_after_a_kill_and_gone_after_its_commit(tmp_path: Path) -> None:
    path = tmp_path / "refusals.jsonl"
    rejections = Rejections(path)
    rejections.add(3, "client 1: it is not finite")
    rejections.add(5, "client 2: no\nbetter")
    assert (
        Rejections(path).reasons == rejections.reasons == {3: "client 1: it is not finite", 5: "client 2: no\nbetter"}
    )
    rejections.forget([3, 4])
    assert rejections.reasons == {5: "client 2: no\nbetter"}
    rejections.forget([5])
    assert not path.exists() and Rejections(path).reasons == {}


def test_those_of_commits_that_were_made_are_forgotten_and_torn_lines_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "refusals.jsonl"
    path.write_text('[1, "a"]\n[2, "b"]\n{"odd": 1}\n[3, "to')
    rejections = Rejections(path)
    rejections.keep_only([2, 9])
    assert rejections.reasons == {2: "b"}
    rejections.add(4, "d")
    assert Rejections(path).reasons[4] == "d"


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
