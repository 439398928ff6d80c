"""Runs, studies and searches from Python are written to tracking tools, by the words of the command line."""

import json
import sys

import numpy as np
import pytest
import torch

import fedfleet as package
from tests.app.specs import TINY, written
from tests.app.tracking.stand_in import stand_in

pytestmark = pytest.mark.slow

SPEC = {"seed": 2, "world": {"clients": 4}, "pace": {"cohort": 2}, "stop": {"rounds": 2}}


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def numbers():
    x = np.random.default_rng(0).normal(size=(120, 3)).astype(np.float32)
    return x, x.sum(1, keepdims=True)


@pytest.mark.parametrize("kept", [False, True])
def test_own_metrics_and_the_measures_of_the_kind_are_in_every_evaluation(tmp_path, monkeypatch, kept):
    module = stand_in()
    monkeypatch.setitem(sys.modules, "wandb", module)
    words = [f"jsonl:{tmp_path / 'log.jsonl'}", f"wandb:{tmp_path}", f"tensorboard:{tmp_path / 'board'}"]
    result = package.run(
        SPEC,
        model=torch.nn.Linear(3, 1),
        data=numbers(),
        metrics={"worst": lambda outputs, labels: np.abs(outputs - labels).max()},
        track=words,
        out=tmp_path / "out" if kept else None,
    )
    written_lines = lines(tmp_path / "log.jsonl")
    assert [line["event"] for line in written_lines] == ["begun", "evaluated", "round", "evaluated", "round", "evaluated", "ended"]
    name = written_lines[0]["run"]
    assert {line["run"] for line in written_lines} == {name} and (name == "out" or name.startswith("run-"))
    tried = [line for line in written_lines if line["event"] == "evaluated"]
    assert all({"accuracy", "loss", "mae", "rmse", "worst"} <= line.keys() for line in tried)
    (run,) = module.runs
    assert [run.rows[i]["worst"] for i in range(3)] == [line["worst"] for line in tried]
    assert tried[-1]["worst"] == pytest.approx(result.metrics["own"]["worst"])
    assert run.summary["end.own.worst"] == written_lines[-1]["own.worst"] == result.metrics["own"]["worst"]
    loading = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    (path,) = (tmp_path / "board" / name).iterdir()
    tags = {v.tag for e in loading.LegacyEventFileLoader(str(path)).Load() for v in e.summary.value}
    assert {"learning/worst", "learning/rmse", "learning/train_loss", "round/bytes_up"} <= tags


def test_one_word_is_enough_and_changes_nothing_in_the_run(tmp_path):
    spec = {**SPEC, "task": "digits_logreg"}
    tracked = package.run(spec, track=f"jsonl:{tmp_path / 'log.jsonl'}")
    assert tracked.metrics["digest"] == package.run(spec).metrics["digest"]
    assert lines(tmp_path / "log.jsonl")[-1]["accuracy"] == tracked.metrics["accuracy"]


def test_a_wrong_word_is_refused_before_anything_is_written(tmp_path):
    for call, table in ((package.run, SPEC), (package.tune, SPEC), (package.study, {"base": SPEC})):
        with pytest.raises(package.BadInput, match="did you mean 'jsonl'"):
            call(table, track="jsonk:x", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_tool_that_fails_costs_a_warning(tmp_path):
    with pytest.warns(UserWarning, match="jsonl:.* failed and is not written to any more") as heard:
        result = package.run({**SPEC, "task": "digits_logreg"}, track=f"jsonl:{tmp_path}")
    assert result.metrics["rounds"] == 2 and heard[0].filename == __file__


def test_a_study_writes_the_runs_that_it_finishes_once(tmp_path):
    log, table = (
        tmp_path / "log.jsonl",
        {"base": {**SPEC, "task": "digits_logreg"}, "grid": {"algorithm.lr": [0.1, 0.2]}, "seeds": 1},
    )
    given = {"out": tmp_path / "out", "track": [f"jsonl:{log}"]}
    first = package.study(table, **given, workers=2)
    assert sorted({line["run"] for line in lines(log)}) == sorted(cell.out.name for cell in first.cells)
    assert [line["event"] for line in lines(log)].count("ended") == 2
    package.study({**table, "seeds": 2}, **given, workers=1)
    assert [line["event"] for line in lines(log)].count("ended") == 4


def test_a_search_writes_its_trials(tmp_path, fedfleet):
    spec = written(tmp_path, TINY.replace("rounds = 6", "rounds = 1") + '[tune.space]\n"algorithm.lr" = [0.1, 0.2]\n')
    log = tmp_path / "log.jsonl"
    words = ("--trials", "2", "--sampler", "grid", "--track", f"jsonl:{log}", "--json")
    code, _, err = fedfleet("tune", spec, "--out", tmp_path / "out", *words)
    assert code == 0, err
    written_lines = lines(log)
    assert [line["run"] for line in written_lines if line["event"] == "ended"] == ["trial-0", "trial-1"]
    assert {line["spec"]["algorithm"]["lr"] for line in written_lines if line["event"] == "begun"} == {0.1, 0.2}
