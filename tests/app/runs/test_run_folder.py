"""Folders of runs: never written over, complete only when everything is there, read back as they were."""

import tomllib
from dataclasses import replace

import pytest

from fedfleet.app.runs import open_run, read_finished_run
from fedfleet.app.runs.run_folder import check_same_spec, claim_folder, make_folder, refuse_taken, write_spec
from fedfleet.app.spec import apply_overrides, resolve
from fedfleet.core.errors import BadInput, FedFleetError
from tests.app.specs import TINY


def tiny(*words):
    return resolve(apply_overrides(tomllib.loads(TINY), words), "spec")


def test_a_new_folder_holds_the_spec(tmp_path):
    make_folder(tmp_path / "deep/out")
    write_spec(tiny(), tmp_path / "deep/out")
    assert resolve(tomllib.loads((tmp_path / "deep/out/spec.toml").read_text())).digest == tiny().digest
    assert [p.name for p in (tmp_path / "deep/out").iterdir()] == ["spec.toml"]


def test_a_folder_with_something_in_it_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(BadInput, match="exists already; continue that run with --resume"):
        refuse_taken(tmp_path, resume=False)
    with pytest.raises(BadInput, match="exists but is not a run"):
        refuse_taken(tmp_path, resume=True)
    with pytest.raises(BadInput, match=r"mine.txt is a file; name a folder"):
        refuse_taken(tmp_path / "mine.txt", resume=False)


def test_half_written_files_do_not_count(tmp_path):
    (tmp_path / "spec.toml.part").write_text("seed =")
    refuse_taken(tmp_path, resume=False)
    write_spec(tiny(), tmp_path)
    assert not (tmp_path / "spec.toml.part").exists()


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"cannot create or write the folder .* choose another with --out"):
        make_folder(tmp_path / "file/out")


def test_another_spec_is_told_by_its_first_difference(tiny_run):
    check_same_spec(tiny("run.threads=2"), tiny_run.out)
    with pytest.raises(BadInput, match=r"world.devices.link is 1.0 there, 0.5 here"):
        check_same_spec(tiny("world.devices.link=0.5"), tiny_run.out)
    with pytest.raises(BadInput, match=r"stop.patience is None there, 3 here"):
        check_same_spec(tiny("stop.patience=3"), tiny_run.out)


def test_a_finished_run_is_read_back(tiny_run):
    again = read_finished_run(tiny_run.out)
    assert again.metrics == tiny_run.metrics
    assert again.answer() == tiny_run.answer()
    assert len(again.events) == len(tiny_run.events)


def test_an_unfinished_run_is_opened_and_not_finished(run_copy):
    (run_copy / "seal.json").unlink()
    with pytest.raises(BadInput, match=r"not finished; continue it with: fedfleet run .*spec.toml --resume --out"):
        read_finished_run(run_copy)
    spec, events, ended = open_run(run_copy)
    assert spec.digest == tiny().digest and ended and events
    with pytest.raises(BadInput, match="no run folder"):
        open_run(run_copy / "none")


@pytest.mark.parametrize("text", ["{}", "[]", "3", '{"digest": 1}', "null"])
def test_damaged_measures_are_named(run_copy, text):
    (run_copy / "metrics.json").write_text(text)
    with pytest.raises(FedFleetError, match=r"metrics.json"):
        read_finished_run(run_copy)


def test_a_folder_of_a_study_or_search_that_was_killed_early_can_be_used_again(tmp_path):
    for name in ("runs", "study.toml.part"):  # as a kill leaves it
        (tmp_path / name).touch()
    claim_folder(tmp_path, "study", marker="study.toml", known={"runs"})
    (tmp_path / "tune.db.part-journal").touch()
    claim_folder(tmp_path, "search", marker="tune.db", known={"runs"})
    (tmp_path / "thesis.doc").touch()
    with pytest.raises(BadInput, match=r"something other than a study \((thesis.doc|tune.db.part-journal)\)"):
        claim_folder(tmp_path, "study", marker="study.toml", known={"runs"})
    (tmp_path / "study.toml").touch()
    claim_folder(tmp_path, "study", marker="study.toml", known={"runs"})


def test_the_end_of_a_run_as_text(tiny_run):
    text = str(tiny_run)
    assert text.startswith("6 rounds, 6 commits in ") and "stopped by rounds" in text
    assert "10th-percentile client" in text and "mean of the worst tenth" in text and "failed" not in text
    assert text.endswith(f"see {tiny_run.out}/report.html")
    failed = replace(tiny_run, metrics={**tiny_run.metrics, "failed_rounds": {"late": 3, "few": 1}})
    assert "failed rounds: 4 (3 x late; 1 x few)" in str(failed) and failed.exit_code == 0
    none = replace(tiny_run, metrics={**tiny_run.metrics, "commits": 0, "warnings": []})
    assert none.exit_code == 1 and "no model" in none.remarks[0]
