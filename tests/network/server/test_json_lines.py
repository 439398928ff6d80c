"""Lines outlive a kill: what was torn is passed over, and what is added after it is whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedfleet.core.errors import RunFailed
from fedfleet.network.server.json_lines import add_line, read_lines


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
