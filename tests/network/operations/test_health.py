"""When a server is alive, and when it is ready for devices."""

import os
from dataclasses import replace

from fedfleet.network.operations.health import (
    STUCK_SECONDS,
    HealthBoard,
    dead_reason,
    disk_check,
    mark_turn,
    unready_reason,
)
from fedfleet.network.operations.metrics import Figures

UP = Figures("demo", transmitters=2, transmitters_up=2)


def board(**changes):
    return HealthBoard(replace(UP, **changes), turned_at=100.0, listening=True)


def test_a_loop_that_does_not_turn_is_dead():
    assert dead_reason(board(), 100.0 + STUCK_SECONDS) == ""
    assert "not turned" in dead_reason(board(), 100.1 + STUCK_SECONDS)
    assert "not turned" in unready_reason(board(), 106.0, writable=True)


def test_turning_brings_it_back():
    stuck = board()
    mark_turn(stuck, replace(UP, round=3))
    assert stuck.turned_at != 100.0 and stuck.figures.round == 3
    mark_turn(stuck)
    assert stuck.figures.round == 3


def test_readiness_needs_everything():
    assert unready_reason(board(), 100.0, writable=True) == ""
    assert "written" in unready_reason(board(), 100.0, writable=False)
    assert "1 of 2" in unready_reason(board(transmitters_up=1), 100.0, writable=True)
    assert "stopping" in unready_reason(board(draining=True), 100.0, writable=True)
    deaf = board()
    deaf.listening = False
    assert "listen" in unready_reason(deaf, 100.0, writable=True)


def test_a_folder_is_tried_by_writing(tmp_path):
    assert disk_check(tmp_path)()
    assert list(tmp_path.iterdir()) == []
    assert not disk_check(tmp_path / "none")()


def test_a_full_disk_is_noticed_and_the_answer_is_remembered_for_a_moment(tmp_path, monkeypatch):
    check = disk_check(tmp_path, every=3600)
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, data[:10]))
    assert not check()
    monkeypatch.setattr(os, "write", real)
    assert not check() and disk_check(tmp_path)()
