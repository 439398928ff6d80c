"""A worker performs what it is given as text, and tells how far it is."""

from fedfleet.app.runs import read_finished_run
from fedfleet.app.studies.grid.study_runs import expand_study
from fedfleet.app.studies.grid.study_worker import piece_of, progress_listener, work
from fedfleet.core.events import ModelCommitted, RoundFailed, RunEnded
from tests.app.studies.tables import asked


def test_a_piece_is_text_and_its_runs_are_those_of_the_specs(tmp_path):
    cells = expand_study(asked())[:2]
    said = []
    piece = piece_of([c.spec for c in cells], [tmp_path / "a", tmp_path / "b"])
    assert work(piece, said.append) == {"failures": ["", ""]}
    assert [read_finished_run(tmp_path / n).spec.digest for n in "ab"] == [c.spec.digest for c in cells]
    assert sorted(s["run"] for s in said if s.get("over")) == [0, 1]  # joined runs end in any order
    assert work(piece, said.append) == {"failures": ["", ""]}, "what is finished is only read"


def test_why_a_run_cannot_be_is_its_answer(tmp_path):
    (tmp_path / "a").write_text("a file")
    (cell, *_) = expand_study(asked())
    (reason,) = work(piece_of([cell.spec], [tmp_path / "a"]), lambda body: None)["failures"]
    assert "is a file" in reason


def test_rounds_are_told_now_and_then_and_the_end_always(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("fedfleet.app.studies.grid.study_worker.time.monotonic", lambda: now[0])
    said = []
    watch = progress_listener(said.append)
    for n in range(10):
        now[0] = n / 10
        watch(3, [ModelCommitted(1.0, n, n + 1, "hash", 1) if n % 2 else RoundFailed(1.0, n, "why")])
    watch(3, [RunEnded(1.0, "rounds")])
    assert said == [*({"run": 3, "round": n} for n in (1, 4, 7, 10)), {"run": 3, "over": True}]
