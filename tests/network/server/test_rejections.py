"""Refusals outlive a kill until their commit is made."""

from __future__ import annotations

from pathlib import Path

from fedfleet.network.server.rejections import Refusals


def test_a_refusal_is_there_after_a_kill_and_gone_after_its_commit(tmp_path: Path) -> None:
    path = tmp_path / "refusals.jsonl"
    refusals = Refusals(path)
    refusals.add(3, "client 1: it is not finite")
    refusals.add(5, "client 2: no\nbetter")
    assert Refusals(path).reasons == refusals.reasons == {3: "client 1: it is not finite", 5: "client 2: no\nbetter"}
    refusals.forget([3, 4])
    assert refusals.reasons == {5: "client 2: no\nbetter"}
    refusals.forget([5])
    assert not path.exists() and Refusals(path).reasons == {}


def test_those_of_commits_that_were_made_are_forgotten_and_torn_lines_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "refusals.jsonl"
    path.write_text('[1, "a"]\n[2, "b"]\n{"odd": 1}\n[3, "to')
    refusals = Refusals(path)
    refusals.keep_only([2, 9])
    assert refusals.reasons == {2: "b"}
    refusals.add(4, "d")
    assert Refusals(path).reasons[4] == "d"
