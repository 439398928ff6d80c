"""When a server is alive, and when it is ready for devices."""

import os
from dataclasses import replace

from fedfleet.network.operations.health import STUCK_SECONDS, Board, disk_check, turned, why_dead, why_unready
from fedfleet.network.operations.metrics import Figures

UP = Figures("demo", transmitters=2, transmitters_up=2)


def board(**changes):
    return Board(replace(UP, **changes), turned_at=100.0, listening=True)


def test_a_loop_that_does_not_turn_is_dead():
    assert why_dead(board(), 100.0 + STUCK_SECONDS) == ""
    assert "not turned" in why_dead(board(), 100.1 + STUCK_SECONDS)
    assert "not turned" in why_unready(board(), 106.0, writable=True)


def test_turning_brings_it_back():
    stuck = board()
    turned(stuck, replace(UP, round=3))
    assert stuck.turned_at != 100.0 and stuck.figures.round == 3
    turned(stuck)
    assert stuck.figures.round == 3


def test_readiness_needs_everything():
    assert why_unready(board(), 100.0, writable=True) == ""
    assert "written" in why_unready(board(), 100.0, writable=False)
    assert "1 of 2" in why_unready(board(transmitters_up=1), 100.0, writable=True)
    assert "stopping" in why_unready(board(draining=True), 100.0, writable=True)
    deaf = board()
    deaf.listening = False
    assert "listen" in why_unready(deaf, 100.0, writable=True)


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
