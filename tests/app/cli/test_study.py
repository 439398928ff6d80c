"""`fedfleet study` answers with tables and a page, and says in one sentence what is wrong."""

import json
import sys

import pytest

from fedfleet.app.studies.grid.joint_jobs import perform_together
from fedfleet.store.seals import SEAL
from tests.app.specs import TINY, refused, written

STUDY = """
base = "spec.toml"
seeds = [0, 1]
[grid]
"algorithm.lr" = [0.05, 0.1]
[scale.quick]
seeds = 1
stop.rounds = 2
[[analysis]]
kind = "table"
"""


@pytest.fixture
def file(tmp_path):
    written(tmp_path, TINY)
    return written(tmp_path, STUDY, "study.toml")


def test_the_contract(fedfleet, file, tmp_path):
    words = ("study", file, "--scale", "quick", "--out", tmp_path / "out", "--workers", 1)
    code, out, err = fedfleet(*words, "--json")
    result = json.loads(out)
    assert (code, err) == (0, "")
    assert {"runs", "cached", "rows", "analyses", "out"} <= result.keys()
    assert (result["runs"], result["cached"], len(result["rows"])) == (2, 0, 2)
    assert (tmp_path / "out/report.html").is_file()
    assert len(list((tmp_path / "out").glob("runs/*/report.html"))) == 2
    code, out, _ = fedfleet(*words)
    assert code == 0
    assert "algorithm.lr=0.05" in out and "2 runs, 2 of them from before" in out


def test_bad_input_is_one_sentence(fedfleet, file, tmp_path):
    refused(fedfleet("study", tmp_path / "none.toml"), "there is no study file")
    refused(fedfleet("study", file, "--scale", "fast"), "study.toml: --scale fast: this study has no [scale.fast]")
    file.write_text(STUDY.replace("[grid]", "[gird]"))
    refused(fedfleet("study", file), "study.toml: the study has no key 'gird'; did you mean 'grid'?")
    file.write_text(STUDY.replace("algorithm.lr", "algorithm.lrr"))
    refused(
        fedfleet("study", file, "--out", tmp_path / "x"), "the arm 'algorithm.lrr=0.05': algorithm has no key 'lrr'"
    )
    assert not (tmp_path / "x").exists()


def test_a_study_of_which_no_run_made_a_model_has_failed(fedfleet, file, tmp_path):
    file.write_text(
        'base = "spec.toml"\n[[runs]]\nname = "hopeless"\npace = { use = "deadline", cohort = 4, seconds = 0.001 }\n'
    )
    code, out, err = fedfleet("study", file, "--out", tmp_path / "out", "--workers", 1)
    assert code == 1
    assert "1 of 1 runs made no model" in out and "WARNING: nobody can report" in err


def test_a_run_that_could_not_be_finished_is_a_failure_and_is_tried_again(fedfleet, file, tmp_path, monkeypatch):
    def full(specs, outs, **how):
        result = list(real(specs, outs, **how))
        if not tried:
            (outs[0] / SEAL).unlink()
            result[0] = OSError(28, "No space left on device")
        tried.append(len(specs))
        return result

    tried, real = [], perform_together
    monkeypatch.setattr("fedfleet.app.studies.grid.study_worker.perform_together", full)
    words = ("study", file, "--scale", "quick", "--out", tmp_path / "out", "--workers", 1, "--json")
    code, out, err = fedfleet(*words)
    found = json.loads(out)
    assert (code, found["failed"], found["unfinished"]) == (1, 1, 1)
    assert "1 of 2 runs have no result" in err and "No space left" in out
    code, out, err = fedfleet(*words)
    assert (code, err, tried[-1]) == (0, "", 1)
    assert json.loads(out)["unfinished"] == 0


def test_two_at_once_in_one_folder_are_refused(fedfleet, file, tmp_path):
    from fedfleet.store.lock import hold_lock

    (tmp_path / "out").mkdir()
    with hold_lock(tmp_path / "out"):
        refused(
            fedfleet("study", file, "--out", tmp_path / "out", "--workers", 1), "is in use by", "choose another folder"
        )


def test_an_interrupt_says_how_to_go_on(fedfleet, file, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("fedfleet.app.studies.grid.run_study.carry_out_runs", interrupted)
    code, out, err = fedfleet("study", file, "--out", tmp_path / "out")
    assert (code, out) == (130, "")
    assert "what has been run is kept: run the same command again to resume" in err


def test_ray_that_is_missing_is_named_with_its_extra(fedfleet, file, tmp_path, monkeypatch):
    monkeypatch.setattr("fedfleet.executors.ray.find_spec", lambda name: None)
    refused(fedfleet("study", file, "--out", tmp_path / "out", "--ray"), 'pip install "fedfleet[ray]"')
    assert not (tmp_path / "out").exists()


def test_runs_that_use_ray_themselves_are_refused_on_ray(fedfleet, file, tmp_path):
    written(tmp_path, TINY.replace("[run]", '[run]\nexecute = "ray"'))
    refused(fedfleet("study", file, "--out", tmp_path / "out", "--ray"), "use one of them")


def test_help_loads_nothing_heavy(fedfleet):
    before = {*sys.modules}
    code, out, _ = fedfleet("study", "--help")
    assert code == 0 and "--scale" in out
    assert "optuna" not in {*sys.modules} - before
