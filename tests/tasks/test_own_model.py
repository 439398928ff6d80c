"""An own model as a task: where its first weights come from, and that a run, its resumption and its replay keep them."""

import json
import re
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import fedfleet
from fedfleet.app.runs import read_finished_run
from fedfleet.core.errors import BadInput
from fedfleet.tasks import fresh_weights
from fedfleet.tasks.data_checks import checked_data
from fedfleet.tasks.model_weights import WeightsFile
from fedfleet.tasks.own_model import model_recipe, own_recipe
from fedfleet.tasks.task import fit_task

X = np.random.default_rng(0).normal(size=(80, 5)).astype(np.float32)
DATA = (X, (X.sum(1) > 0).astype(int))
SPEC = {"seed": 1, "world": {"clients": 4}, "pace": {"cohort": 2}, "stop": {"rounds": 3}, "run": {"checkpoint_every": 1}}


def net():
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))


def softmaxed():
    return nn.Sequential(nn.Linear(5, 2), nn.Softmax(1))


@pytest.fixture
def weights(tmp_path):
    torch.manual_seed(7)
    save_file(net().state_dict(), tmp_path / "start.safetensors")
    return tmp_path / "start.safetensors"


def test_where_first_weights_come_from(weights):
    data = checked_data(DATA)
    assert model_recipe(net, data)(0).first_weights == "seed"
    given = net()
    task = model_recipe(given, data)(0)
    assert task.first_weights == "module" and np.array_equal(task.init(5)["0.weight"], given[0].weight.detach().numpy())
    task = model_recipe(net, data, weights=WeightsFile(weights))(0)
    assert task.first_weights == "file" and task.warnings == ()
    assert all(np.array_equal(task.init(1)[n], task.init(2)[n]) for n in task.init(1))


def test_weights_that_fit_a_part_leave_the_rest_to_the_seed(weights):
    data = checked_data((X, np.arange(80) % 4))
    wider = lambda: nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4))  # noqa: E731
    with pytest.raises(BadInput, match=r"'2.weight' has the shape \(2, 8\) there and \(4, 8\)"):
        model_recipe(wider, data, weights=WeightsFile(weights))(0)
    task = model_recipe(wider, data, weights=WeightsFile(weights, partial=True))(0)
    first, second = task.init(1), task.init(2)
    assert np.array_equal(first["0.weight"], second["0.weight"]) and not np.array_equal(first["2.weight"], second["2.weight"])
    assert "2 of 4 arrays are from" in task.warnings[0]


def test_a_recipe_of_somebody_elses_model_is_brought_into_the_same_form():
    data = checked_data(DATA)
    dropping = lambda shape, classes: nn.Sequential(nn.Linear(*shape, classes), nn.Dropout(0.5), nn.Softmax(1))  # noqa: E731
    recipe = own_recipe(fit_task("mine", lambda: data, dropping))
    task = recipe(0)
    assert task.name == "mine" and "remove the Softmax" in task.warnings[0] and task.first_weights == "seed"
    assert not any(type(layer) is nn.Dropout for layer in task.build().modules())
    assert recipe.fit is not None and recipe.fit(0, data).warnings == task.warnings and recipe.here()


def test_a_run_from_a_file_needs_it_no_more(weights, tmp_path):
    out = tmp_path / "run"
    done = fedfleet.run(SPEC, model=net, data=DATA, weights=weights, out=out)
    assert done.metrics["first_weights"] == "file" == json.loads((out / "metrics.json").read_text())["first_weights"]
    assert "First weights: from a file" in (out / "report.html").read_text()
    assert "first weights: from a file" in str(read_finished_run(out))
    fresh = fedfleet.run(SPEC, model=net, data=DATA)
    assert fresh.metrics["first_weights"] == "seed" and fresh.metrics["digest"] != done.metrics["digest"]
    weights.unlink()
    assert "models" in fedfleet.replay(out)["verified"]
    for given in ({}, {"model": net, "data": DATA}):
        copy = tmp_path / f"copy{len(given)}"
        shutil.copytree(out, copy)
        for name in ("metrics.json", "model.safetensors", "report.html", "seal.json"):
            (copy / name).unlink()
        again = fedfleet.run(copy / "spec.toml", out=copy, resume=True, **given)
        assert again.metrics["digest"] == done.metrics["digest"] and again.metrics["first_weights"] == "file"
    onward = fedfleet.run(SPEC, "stop.rounds=1", model=net, data=DATA, weights=out)
    assert onward.metrics["first_weights"] == "file"


def test_sentences_about_a_model_reach_script_terminal_and_report(tmp_path, capfd):
    with pytest.warns(UserWarning, match="remove the Softmax"):
        done = fedfleet.run(SPEC, model=softmaxed, data=DATA, out=tmp_path / "run")
    assert re.search("WARNING: model: its outputs are probabilities", capfd.readouterr().err), "before training"
    assert any("remove the Softmax" in warning for warning in done.metrics["warnings"])
    assert "remove the Softmax" in (tmp_path / "run/report.html").read_text()
    assert (
        fedfleet.replay(tmp_path / "run")["ok"] and fedfleet.load(tmp_path / "run").metrics["warnings"] == done.metrics["warnings"]
    )
    with pytest.warns(UserWarning, match="remove the Softmax") as told:
        fedfleet.run(SPEC, model=softmaxed, data=DATA)
    assert sum("remove the Softmax" in str(warning.message) for warning in told) == 1


def test_random_weights_of_an_object_are_warned_of_where_the_run_is_kept(tmp_path, monkeypatch, recwarn, weights):
    monkeypatch.setattr(fresh_weights.torch, "initial_seed", lambda: 2**52 + 1)

    def warned():
        said = [str(w.message) for w in recwarn.list if "first weights are those" in str(w.message)]
        recwarn.clear()
        return said

    fedfleet.run(SPEC, model=net(), data=DATA, out=tmp_path / "object")
    assert "pass the class or a function" in warned()[0]
    fedfleet.run(SPEC, model=net(), data=DATA)
    fedfleet.run(SPEC, model=net, data=DATA, out=tmp_path / "function")
    fedfleet.run(SPEC, model=net(), data=DATA, weights=weights, out=tmp_path / "file")
    assert warned() == []
    study = {"base": SPEC, "seeds": 1, "runs": [{"name": "only"}]}
    fedfleet.study(study, model=net(), data=DATA, out=tmp_path / "study")
    assert len(warned()) == 1


def test_weights_without_an_own_model_are_refused(weights):
    with pytest.raises(BadInput, match="weights are those of a model that is an object of Python"):
        fedfleet.run({"task": "digits_logreg"}, weights=weights)
    with pytest.raises(BadInput, match="partial_weights = True"):
        fedfleet.run(SPEC, model=net, data=DATA, partial_weights=True)
    with pytest.raises(BadInput, match="weights = 3: give a path"):
        fedfleet.run(SPEC, model=net, data=DATA, weights=3)
