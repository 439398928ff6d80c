"""A study from its file to its tables."""

import json
from pathlib import Path

import pytest

from fedfleet.app.studies.grid.run_study import FILE, LOOKS, default_folder, load_study, note_look, study
from fedfleet.app.studies.grid.study_jobs import WorkerSettings
from fedfleet.app.studies.grid.study_tables import TABLES
from fedfleet.choose.uniform import uniform
from fedfleet.core.errors import BadInput
from fedfleet.core.registry import register
from tests.app.studies.killing import proven
from tests.app.studies.tables import BASE, LRS, asked

pytestmark = pytest.mark.slow

ALONE = {"worker_settings": WorkerSettings(1)}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The small study, carried out once; leave its folder as it is."""
    heard = []
    more = {
        "baseline": "algorithm.lr=0.05",
        "target": 0.3,
        "analysis": [{"kind": "table"}, {"kind": "pearson", "x": "algorithm.lr"}],
    }
    return study(load_study({**LRS, **more}), tmp_path_factory.mktemp("study") / "out", tell=heard.append, **ALONE)


def test_the_answer_has_every_run_row_and_analysis(done):
    result = done.answer()
    assert (result["runs"], result["cached"], result["failed"]) == (4, 0, 0)
    assert [row["arm"] for row in result["rows"]] == ["algorithm.lr=0.05", "algorithm.lr=0.1"]
    assert [a["kind"] for a in result["analyses"]] == ["table", "pearson"]
    json.dumps(result, allow_nan=False)
    assert all((done.out / name).is_file() for name in (*TABLES, FILE, "wall.csv"))
    assert str(done).startswith(done.verdict)
    assert [row["arm"] for row in done.table()] == [row["arm"] for row in result["rows"]]


def test_again_runs_nothing_and_writes_the_same_bytes(done, tmp_path):
    before = {name: (done.out / name).read_bytes() for name in TABLES}
    again = study(load_study(done.out / FILE), done.out, **ALONE)
    assert again.cached == 4
    assert {name: (done.out / name).read_bytes() for name in TABLES} == before


def test_a_changed_key_reruns_only_what_changed(done):
    more = study(load_study({**LRS, "grid": {"algorithm.lr": [0.05, 0.2]}, "seeds": 1}), done.out, **ALONE)
    assert (len(more.cells), more.cached) == (2, 1)


def test_a_failed_cell_is_a_row_with_its_reason(tmp_path):
    runs = [{"name": "fine"}, {"name": "hopeless", "pace": {"use": "deadline", "cohort": 4, "seconds": 1e-3}}]
    said = []
    result = study(load_study({"base": BASE, "runs": runs}), tmp_path / "out", tell=said.append, **ALONE)
    assert result.failed == 1
    fine, hopeless = result.rows
    assert fine["accuracy"]["value"] > hopeless["accuracy"]["value"] and hopeless["failed"] == 1
    assert next(iter(hopeless["reasons"])).startswith("no model was made in 3 rounds")
    assert len(said) == 1 and "can report within" in said[0] and said[0].endswith("(in 'hopeless, seed 0')")


def test_everything_that_is_wrong_is_told_before_anything_is_written(tmp_path):
    for change in ({"grid": {"pace.cohort": [4, 400]}}, {"analysis": [{"kind": "pearson", "x": "pace.use"}]}):
        with pytest.raises(BadInput):
            study(load_study({**LRS, **change}), tmp_path / "out", **ALONE)
        assert not (tmp_path / "out").exists()


def test_a_folder_that_is_not_a_study_is_left_alone(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/thesis.doc").touch()
    (tmp_path / "file").touch()
    for name, said in (("full", "something other than a study"), ("file", "is a file")):
        with pytest.raises(BadInput, match=said):
            study(load_study(LRS), tmp_path / name, **ALONE)


def test_the_name_of_the_folder():
    assert str(default_folder(load_study(LRS))) == "runs/study"
    assert str(default_folder(load_study({**LRS, "name": "lrs", "scale": {"quick": {}}}, "quick"))) == "runs/lrs-quick"


def test_parts_that_only_this_process_has_are_run_here(tmp_path, monkeypatch):
    register("selectors", "mine", lambda: uniform())
    monkeypatch.setattr("fedfleet.app.studies.grid.study_jobs.run_in_workers", None)
    result = study(load_study({"base": {**BASE, "choose": "mine"}}), tmp_path / "out")
    assert result.failed == 0


def test_a_study_that_is_killed_ends_with_the_same_bytes(tmp_path):
    proven(tmp_path, lrs=[0.05, 0.1], seeds=2, rounds=12, kills=1, draws=0)


@pytest.mark.parametrize(
    ("name", "folder"),
    [("../../x", "x"), ("/etc/x", "etc-x"), ("..", "study"), ("a/b", "a-b"), ("x" * 300, "x" * 60), ("Ü 1", "Ü 1")],
)
def test_the_folder_of_a_study_lies_below_runs_whatever_its_name_is(name, folder):
    assert default_folder(asked(name=name)) == Path("runs") / folder


def test_tables_of_an_earlier_file_are_not_left_beside_a_new_one(tmp_path, monkeypatch):
    out, told, asked_first = tmp_path / "out", [], {**LRS, "seeds": 1}
    study(asked_first, out, worker_settings=WorkerSettings(1))
    monkeypatch.setattr(
        "fedfleet.app.studies.grid.run_study.carry_out_runs", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        study(asked_first, out, worker_settings=WorkerSettings(1), tell=told.append)
    assert (out / "results.md").is_file() and not told, "the same runs, the same tables"
    with pytest.raises(KeyboardInterrupt):
        study(
            {**asked_first, "grid": {"algorithm.lr": [0.05, 0.2]}},
            out,
            worker_settings=WorkerSettings(1),
            tell=told.append,
        )
    assert not [name for name in TABLES if (out / name).exists()] and len(list((out / "runs").iterdir())) == 2
    assert "are of other runs than this file asks for" in told[-1]


def test_more_seeds_are_another_look_and_the_same_seeds_are_not(tmp_path):
    assert [note_look(tmp_path, asked(seeds=n)) for n in (3, 3, 5, 9, 5)] == [1, 1, 2, 3, 2]


def test_one_seed_is_no_look_and_other_arms_begin_anew(tmp_path):
    assert [note_look(tmp_path, asked(seeds=n)) for n in (1, 3, 5)] == [1, 1, 2]
    assert note_look(tmp_path, asked(seeds=9, grid={"algorithm.lr": [0.3, 0.4]})) == 1


def test_a_broken_file_is_written_anew(tmp_path):
    (tmp_path / LOOKS).write_text("{")
    assert note_look(tmp_path, asked(seeds=3)) == 1 and note_look(tmp_path, asked(seeds=5)) == 2
