"""The board of a study is a function of the news."""

import sys

import pytest

from fedfleet.app.studies.grid.study_jobs import RunNews
from fedfleet.app.studies.grid.study_progress import Board, board, show_board
from fedfleet.app.studies.grid.study_runs import expand_study
from tests.app.studies.tables import asked


@pytest.fixture
def mine():
    return board(expand_study(asked()), cached=[0])


def test_what_is_done_running_and_waiting(mine):
    assert mine.headline(0.0) == "1 of 4 runs done, 1 of them from before, 0 running, 3 waiting, 0 s"
    mine.take_news(RunNews(1, round=2))
    mine.take_news(RunNews(2, round=1))
    assert mine.running == [1, 2]
    assert mine.lines() == [("algorithm.lr=0.05, seed 1", "round 2 of 3"), ("algorithm.lr=0.1, seed 0", "round 1 of 3")]
    assert mine.seconds_left(30.0) == 60.0  # three rounds of nine took half a minute
    mine.take_news(RunNews(1, is_over=True))
    mine.take_news(RunNews(2, is_over=True, failure="why"))
    assert mine.headline(60.0) == "3 of 4 runs done, 1 of them from before, 1 failed, 0 running, 1 waiting, 60 s, about 30 s left"


def test_a_run_whose_worker_died_waits_again(mine):
    mine.take_news(RunNews(1, round=2))
    mine.take_news(RunNews(1, worker_deaths=1))
    assert mine.running == [] and mine.seconds_left(5.0) is None


def test_many_runs_are_counted():
    many = board(expand_study(asked(seeds=20)), cached=[])
    for i in range(40):
        many.take_news(RunNews(i, round=1))
    assert len(many.lines()) == 13
    assert many.lines()[-1] == ("and 28 more", "")


def test_it_is_drawn_on_a_terminal_only(mine, monkeypatch, capsys):
    with show_board(mine) as hear:
        hear(RunNews(1, round=2))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with show_board(mine, quiet=True):
        pass
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with show_board(mine) as hear:
        hear(RunNews(1, round=2))
    assert "round 2 of 3" in capsys.readouterr().err


def test_brackets_in_the_name_of_an_arm_are_shown_as_they_are(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with show_board(Board(["a [/b]", "labels=[walk, run]"], [3, 3], frozenset())) as hear:
        hear(RunNews(0, round=1))
        hear(RunNews(1, round=2))
    said = capsys.readouterr().err
    assert "a [/b]" in said and "labels=[walk, run]" in said
