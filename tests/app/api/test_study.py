"""Several runs from Python: a study of a spec's task or of an own model, and comparisons of results and folders."""

import numpy as np
import pytest
import torch

import fedfleet
from fedfleet.core.errors import BadInput


def test_results_and_folders_can_be_compared(tmp_path):
    spec = {"task": {"use": "digits_logreg"}, "world": {"clients": 4}, "pace": {"cohort": 2}, "stop": {"rounds": 1}}
    first = fedfleet.run({**spec, "seed": 1}, out=tmp_path / "one")
    fedfleet.run({**spec, "seed": 1, "algorithm": {"lr": 0.3}}, out=tmp_path / "other")
    result = fedfleet.compare([first, str(tmp_path / "other")], target=0.5)
    assert result.differs.keys() == {"algorithm.lr"} and result.target == 0.5 and result.verdict.winner is None
    assert [arm.runs[0].name for arm in result.arms] == ["one", "other"]
    kept_nowhere = fedfleet.run({**spec, "seed": 1})
    with pytest.raises(fedfleet.BadInput, match="kept in no folder"):
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
    with pytest.raises(
        BadInput, match=r"model and data of this study were given in Python; go on there with fedfleet\.study"
    ):
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
    assert "first weights" not in capsys.readouterr().err
    for gone in ("study.json", "results.csv"):  # as if it had been interrupted before its tables
        (tmp_path / "out" / gone).unlink()
    assert fedfleet.study(table, model=torch.nn.Linear(4, 2), **given).cached == 0
    assert "had other data or other first weights, so all begin anew" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        ({"model": torch.nn.Linear(4, 2)}, "give both model and data"),
        ({"workers": 0}, "workers = 0: give a whole number"),
        (
            {"model": torch.nn.Linear(4, 2), "data": (np.eye(4), np.arange(4) % 2), "workers": 2},
            "lives in this process",
        ),
        ({"loss": torch.nn.functional.cross_entropy}, "loss and metrics go with a model"),
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
