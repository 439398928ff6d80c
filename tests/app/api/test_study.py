"""Several runs from Python: a study of a spec's task or of an own model, and comparisons of results and folders."""

import json
import sys

import numpy as np
import pytest
import torch

import fedfleet
from fedfleet.app.runs import perform
from fedfleet.app.spec import load_spec
from fedfleet.app.studies.grid.joint_jobs import perform_together
from fedfleet.core.errors import BadInput
from fedfleet.store.seals import SEAL
from tests.app.specs import TINY, refused, written

pytestmark = pytest.mark.slow


def test_results_and_folders_can_be_compared(tmp_path):
    spec = {"task": {"use": "digits_logreg"}, "world": {"clients": 4}, "pace": {"cohort": 2}, "stop": {"rounds": 1}}
    first = fedfleet.run({**spec, "seed": 1}, out=tmp_path / "one")
    fedfleet.run({**spec, "seed": 1, "algorithm": {"lr": 0.3}}, out=tmp_path / "other")
    result = fedfleet.compare([first, str(tmp_path / "other")], target=0.5)
    assert result.differs.keys() == {"algorithm.lr"} and result.target == 0.5 and result.verdict.winner is None
    assert [arm.runs[0].name for arm in result.arms] == ["one", "other"]
    kept_nowhere = fedfleet.run({**spec, "seed": 1})
    with pytest.raises(fedfleet.BadInput, match="not saved in a folder"):
        fedfleet.compare([first, kept_nowhere])
    assert repr(result) == f"Comparison(2 runs: {result.verdict.sentence})" and result.verdict.sentence in str(result)
    assert fedfleet.compare(folder for folder in (first, tmp_path / "other")).differs == result.differs
    with pytest.raises(fedfleet.BadInput, match="--target 'high' is not a number"):
        fedfleet.compare([first, tmp_path / "other"], target="high")
    with pytest.raises(fedfleet.BadInput, match="page: cannot write"):
        fedfleet.compare([first, tmp_path / "other"], page=tmp_path / "no/page.html")
    with pytest.raises(fedfleet.BadInput, match="takes a list"):
        fedfleet.compare(tmp_path)


PACES = [
    {"name": "patient", "pace": {"cohort": 3}},
    {"name": "strict", "pace": {"use": "deadline", "cohort": 3, "seconds": 60.0}},
]


def test_a_study_of_an_own_model_keeps_the_data_once_and_goes_on_where_it_was(tmp_path, monkeypatch):
    x = np.random.default_rng(0).normal(size=(200, 4))
    y = (x.sum(1) > 0).astype(int)
    table = {
        "base": {"world": {"clients": 6, "devices": "spread"}, "stop": {"rounds": 3}},
        "seeds": 2,
        "baseline": "patient",
        "runs": PACES,
    }
    given = {"model": lambda: torch.nn.Linear(4, 2), "data": (x, y), "out": tmp_path / "out"}
    done = fedfleet.study(table, metrics={"share": lambda outputs, labels: labels.mean()}, **given)
    assert (len(done.cells), done.cached, done.failed) == (4, 0, 0)
    assert [row["arm"] for row in done.rows] == ["patient", "strict"]
    assert repr(done) == f"Studied(out: 2 arms, 4 runs; {tmp_path / 'out'})"
    assert done.page.is_file() and done.rows[1]["against"]["n"] == 2
    assert len(list((tmp_path / "out").glob("data-*.npz"))) == 1
    assert not list((tmp_path / "out").glob("runs/*/own/data.safetensors"))
    assert fedfleet.load(done.cells[0].out).metrics["own"]["share"] == pytest.approx(0.5, abs=0.2)
    again = fedfleet.study(table, metrics={"share": lambda outputs, labels: labels.mean()}, **given)
    assert again.cached == 4 and again.rows == done.rows
    with pytest.raises(BadInput, match=r"model and data of this study were given in Python; .* fedfleet.study"):
        fedfleet.study(tmp_path / "out/study.toml", out=tmp_path / "other")
    assert fedfleet.study(tmp_path / "out/study.toml", **given).cached == 4


def test_a_model_with_other_first_weights_begins_anew_and_says_why(tmp_path, capsys):
    x = np.random.default_rng(0).normal(size=(60, 4))
    base = {"world": {"clients": 3}, "pace": {"cohort": 2}, "stop": {"rounds": 1}}
    table = {"base": base, "seeds": 1, "runs": [{"name": "one", "algorithm": {"lr": 0.1}}]}
    given = {"data": (x, (x.sum(1) > 0).astype(int)), "out": tmp_path / "out"}
    model = torch.nn.Linear(4, 2)
    fedfleet.study(table, model=model, **given)
    assert fedfleet.study(table, model=model, **given).cached == 1
    assert "initial weights" not in capsys.readouterr().err
    for gone in ("study.json", "results.csv"):  # as if it had been interrupted before its tables
        (tmp_path / "out" / gone).unlink()
    assert fedfleet.study(table, model=torch.nn.Linear(4, 2), **given).cached == 0
    assert "had other data or other initial weights" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        ({"model": torch.nn.Linear(4, 2)}, "give both model and data"),
        ({"workers": 0}, "workers = 0: give a whole number"),
        (
            {"model": torch.nn.Linear(4, 2), "data": (np.eye(4), np.arange(4) % 2), "workers": 2},
            "only in this process",
        ),
        ({"loss": torch.nn.functional.cross_entropy}, "loss and metrics need a model"),
        ({"model": torch.nn.Linear(4, 2), "data": (np.zeros((9, 5)), np.zeros(9, int))}, "9|model"),
    ],
)
def test_a_study_that_cannot_be_is_refused_before_anything_is_written(tmp_path, kwargs, says):
    with pytest.raises(BadInput, match=says):
        fedfleet.study({"base": {}, "runs": PACES}, out=tmp_path / "out", **kwargs)
    assert not (tmp_path / "out").exists()


def test_a_study_with_a_named_task_and_a_model_is_refused(tmp_path):
    given = {"model": torch.nn.Linear(4, 2), "data": (np.eye(4).repeat(9, 0), np.arange(36) % 2)}
    with pytest.raises(BadInput, match="the arm 'patient': the spec names a task"):
        fedfleet.study({"base": {"task": "digits_logreg"}, "runs": PACES}, out=tmp_path / "out", **given)


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
    refused(fedfleet("study", file, "--out", tmp_path / "x"), "the arm 'algorithm.lrr=0.05': algorithm has no key 'lrr'")
    assert not (tmp_path / "x").exists()


def test_a_study_of_which_no_run_made_a_model_has_failed(fedfleet, file, tmp_path):
    file.write_text('base = "spec.toml"\n[[runs]]\nname = "hopeless"\npace = { use = "deadline", cohort = 4, seconds = 0.001 }\n')
    code, out, err = fedfleet("study", file, "--out", tmp_path / "out", "--workers", 1)
    assert code == 1
    assert "1 of 1 runs made no model" in out and "WARNING: no client can report" in err


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
        refused(fedfleet("study", file, "--out", tmp_path / "out", "--workers", 1), "is in use by", "choose another folder")


def test_an_interrupt_says_how_to_go_on(fedfleet, file, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("fedfleet.app.studies.grid.run_study.carry_out_runs", interrupted)
    code, out, err = fedfleet("study", file, "--out", tmp_path / "out")
    assert (code, out) == (130, "")
    assert "what has been run is kept: run the same command again to resume" in err


def test_ray_that_is_missing_is_named_with_its_extra(fedfleet, file, tmp_path, monkeypatch):
    monkeypatch.setattr("fedfleet.executors.ray_cluster.find_spec", lambda name: None)
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


@pytest.fixture(scope="module")
def other_run(tmp_path_factory):
    """The tiny run on another seed, with a deadline."""
    folder = tmp_path_factory.mktemp("other")
    words = ["seed=4", "pace.use=deadline", "pace.seconds=30", "pace.cohort=4", "stop.rounds=2"]
    return perform(load_spec(written(folder), words), folder / "other").out


def test_a_program_gets_the_contract(tiny_run, other_run, fedfleet):
    code, out, err = fedfleet("compare", tiny_run.out, other_run, "--json")
    got = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert code == 0 and err == "" and {"differs", "runs", "verdict"} <= got.keys()
    assert got["differs"]["seed"] == [3, 4] and len(got["runs"]) == 2 and "page" not in got


def test_a_person_gets_a_table_and_a_verdict(tiny_run, other_run, fedfleet):
    code, out, _ = fedfleet("compare", tiny_run.out, other_run, "--target", "0.3")
    assert code == 0 and "accuracy at the end" in out and "time to 30.0 %" in out
    assert "without common seeds no difference can be shown" in out


def test_what_cannot_be_compared_is_refused(tiny_run, other_run, fedfleet, tmp_path):
    refused(fedfleet("compare", tiny_run.out), "at least two runs")
    refused(fedfleet("compare", tiny_run.out, tiny_run.out), "given twice")
    refused(fedfleet("compare", tiny_run.out, tmp_path / "none"), "no run folder")
    refused(fedfleet("compare", tiny_run.out, tmp_path), "neither a run nor a study")
    refused(fedfleet("compare", tiny_run.out, other_run, "--target", "80"), "--target")
    refused(fedfleet("compare", tiny_run.out, other_run, "--out", tmp_path / "no/page.html"), "--out")
    refused(fedfleet("compare"), "RUN")


def test_analyses_of_a_study_know_own_metrics(tmp_path):
    x = np.random.default_rng(0).normal(size=(200, 4))
    y = (x.sum(1) > 0).astype(int)
    table = {
        "base": {"world": {"clients": 6}, "stop": {"rounds": 3}},
        "seeds": 2,
        "runs": PACES,
        "analysis": [
            {"kind": "table", "columns": ["measures.margin", "accuracy"]},
            {"kind": "paired_test", "metric": "measures.margin", "baseline": "patient"},
        ],
    }

    def margin(outputs, labels):
        return -float(np.abs(outputs).mean())

    given = {"model": lambda: torch.nn.Linear(4, 2), "data": (x, y), "metrics": {"margin": margin}}
    done = fedfleet.study(table, out=tmp_path / "out", **given)
    column = [row["measures.margin"]["value"] for row in done.analyses[0]["table"]]
    wanted = [[fedfleet.load(c.out).metrics["own"]["margin"] for c in done.cells if c.cell.arm == arm["name"]] for arm in PACES]
    assert column == pytest.approx([np.mean(values) for values in wanted], rel=1e-6) and max(column) < 0
    table["analysis"] = [{"kind": "table", "columns": ["measures.margn"]}]
    with pytest.raises(BadInput, match=r"columns = 'measures.margn': .* has the measure 'margn'; did you mean 'margin'"):
        fedfleet.study(table, out=tmp_path / "other", **given)
    assert not (tmp_path / "other").exists()
