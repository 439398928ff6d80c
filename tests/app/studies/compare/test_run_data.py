"""Runs from folders: finished, killed, failed, of an own model; and what is none."""

import json
import shutil

import numpy as np
import pytest

import fedfleet
from fedfleet.app.studies.compare.arms import arms, differing_keys
from fedfleet.app.studies.compare.run_data import accuracy_at, read_run, read_runs, runs_in, short_names, study_settings
from fedfleet.core.errors import BadInput, RunFailed
from tests.app.studies.compare.made import made


def test_a_finished_run_has_its_sealed_measures_and_its_curve(small_runs):
    run = read_run(small_runs.wait1, "one")
    assert run.ended and not run.served and run.seed == 1 and run.task == "digits_logreg" and run.tested > 300
    assert run.metrics["accuracy"] == run.accuracy[-1] == accuracy_at(run, run.end)
    assert run.metrics["virtual_seconds"] == run.end and run.seconds[0] == 0 < run.first <= run.seconds[1]
    assert run.digest == run.metrics["digest"]


def test_a_run_that_was_killed_counts_as_far_as_it_got(small_runs):
    run = read_run(small_runs.half, "half")
    assert not run.ended and 1 <= len(run.accuracy) < 5 and run.end < 1e6 and run.metrics["bytes_up"] > 0 and len(run.digest) == 64


def test_a_run_without_a_model_stays_at_its_first_weights(small_runs):
    run = read_run(small_runs.bare, "bare")
    assert run.ended and run.first is None and run.end > 0 and len(set(run.accuracy)) == 1


def test_accuracy_is_a_step():
    run = made(1, ((10.0, 0.2), (20.0, 0.6), (20.0, 0.7), (30.0, 0.5)))
    assert [accuracy_at(run, t) for t in (9.9, 10.0, 19.9, 20.0, 29.0, 1e9)] == [None, 0.2, 0.2, 0.7, 0.7, 0.5]


def test_a_study_stands_for_its_runs(small_runs):
    names = ["dead1", "wait1", "wait2"]
    assert [p.name for p in runs_in(small_runs.study)] == names == [p.name for p in runs_in(small_runs.study / "runs")]
    assert [run.name for run in read_runs([small_runs.study, small_runs.half])] == [*names, "half"]


def test_names_are_the_ends_of_paths_that_tell_them_apart(tmp_path):
    assert short_names([tmp_path / "a/run", tmp_path / "b/run", tmp_path / "b/other"]) == ["a/run", "b/run", "b/other"]
    assert short_names([tmp_path / "a", tmp_path / "b"]) == ["a", "b"] and short_names([]) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (lambda r: [r.wait1, r.top / "none"], "there is no run folder .*none"),
        (lambda r: [r.top / "spec.toml", r.wait1], "is a file; name the folder"),
        (lambda r: [r.wait1], "at least two runs, and .* is one"),
        (lambda r: [], "none was named"),
        (lambda r: [r.wait1, r.study / "runs/../runs/wait1"], "given twice"),
        (lambda r: [r.study, r.wait1], "given twice"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_sentence(small_runs, name, words):
    with pytest.raises(BadInput, match=words):
        read_runs(name(small_runs))


def test_a_folder_without_runs_and_a_changed_run_are_refused(small_runs, tmp_path):
    with pytest.raises(BadInput, match="neither a run nor a study"):
        runs_in(tmp_path)
    spoilt = shutil.copytree(small_runs.wait1, tmp_path / "spoilt")
    (spoilt / "metrics.json").write_text((spoilt / "metrics.json").read_text().replace('"accuracy": 0', '"accuracy": 1'))
    with pytest.raises(RunFailed, match=r"metrics\.json"):
        read_runs([small_runs.wait2, spoilt])
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "run.db").write_bytes(b"SQLite format 3\0" + bytes(200))
    with pytest.raises((BadInput, RunFailed), match="foreign"):
        read_runs([small_runs.wait2, foreign])


@pytest.mark.filterwarnings("ignore:the model is no better than chance")
def test_seeds_of_an_own_model_are_one_arm_and_another_model_is_another(tmp_path):
    from torch import nn

    x = np.random.default_rng(0).normal(size=(120, 4)).astype(np.float32)
    data = (x, (x.sum(1) > 0).astype(int))
    spec = {"world": {"clients": 4}, "pace": {"cohort": 2}, "stop": {"rounds": 1}}
    for seed in (1, 2):
        fedfleet.run({**spec, "seed": seed}, model=lambda: nn.Linear(4, 2), data=data, out=tmp_path / f"linear{seed}")
    wide = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    fedfleet.run({**spec, "seed": 1}, model=wide, data=data, out=tmp_path / "wide1")
    result = read_runs([tmp_path])
    assert [[run.name for run in arm.runs] for arm in arms(result)] == [["linear1", "linear2"], ["wide1"]]
    assert {"seed", "task.model", "task.weights"} == differing_keys(result).keys()


def test_of_a_study_the_runs_are_read_that_it_is_of(tmp_path):
    for name in ("a-1", "b-1", "old-1"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "spec.toml").touch()
    names = lambda: [p.name for p in runs_in(tmp_path)]  # noqa: E731
    assert names() == ["a-1", "b-1", "old-1"]
    (tmp_path / "study.json").write_text(json.dumps({"runs": [{"folder": "runs/a-1"}, {"folder": "runs/b-1"}]}))
    assert names() == ["a-1", "b-1"], "what an earlier file of the study asked for is not shown as if it still did"
    (tmp_path / "study.json").write_text("[")
    assert len(names()) == 3


def test_a_studys_folder_says_its_aim_and_how_often_it_was_looked_at(tmp_path):
    (tmp_path / "study.json").write_text('{"aim": "time", "look": 2}')
    assert study_settings([tmp_path]) == {"aim": "time", "look": 2}
    assert study_settings([tmp_path, tmp_path]) == {} == study_settings([tmp_path / "none"])
    (tmp_path / "study.json").write_text('{"aim": "speed", "look": 2}')
    assert study_settings([tmp_path]) == {}
