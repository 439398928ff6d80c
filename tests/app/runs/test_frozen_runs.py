"""Runs with frozen weights: resumed, replayed, served and loaded; other weights are refused."""

import re

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

import fedfleet
from fedfleet.app.runs import perform
from fedfleet.app.runs.run_audit import replay_run
from fedfleet.app.runs.run_folder import FROZEN
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.trees import content_hash, tree_nbytes
from fedfleet.store.files import load_tree, save_tree
from fedfleet.tasks.digits import digits_vit
from tests.app.runs.flipping import killed_run
from tests.app.runs.tampering import tampered
from tests.app.runs.test_served_run import served
from tests.app.specs import written

pytestmark = pytest.mark.slow

SIZE = {"width": 8, "heads": 2, "depth": 1}


@pytest.fixture
def backbone(tmp_path):
    path = tmp_path / "backbone.safetensors"
    save_file(digits_vit(**SIZE, backbone="")(9).init(9), path)
    return path


def spec_of(backbone, rounds=3, **more):
    return {
        "seed": 4, "task": {"use": "digits_vit", **SIZE, "backbone": str(backbone)},
        "algorithm": {"use": "biasprompt", "prompt_length": 2, "epochs": 1}, "world": {"clients": 8},
        "pace": {"cohort": 3}, "stop": {"rounds": rounds}, "run": {"checkpoint_every": 1}, **more,
    }  # fmt: skip


def test_a_run_is_resumed_replayed_and_loaded_whole(backbone, tmp_path):
    spec = spec_of(backbone)
    done = perform(resolve(spec), tmp_path / "straight")
    killed_run(spec, tmp_path / "killed", 1)
    assert perform(resolve(spec), tmp_path / "killed", resume=True).metrics["digest"] == done.metrics["digest"]
    assert {"models", "scores"} <= {*replay_run(done.out)["verified"]}
    travelled, frozen = load_tree(done.out / "model.safetensors")[0], load_tree(done.out / FROZEN)[0]
    assert done.metrics["bytes_up"] == 3 * 3 * tree_nbytes(travelled)
    assert not travelled.keys() & frozen.keys()
    public = load_file(backbone)
    assert all(np.array_equal(v, public[n]) for n, v in frozen.items()), "bit for bit what the file held"
    result = fedfleet.load(done.out)
    assert content_hash(result.params) == content_hash({**frozen, **travelled})
    with torch.no_grad():
        said = result.module()(torch.from_numpy(digits_vit(**SIZE, backbone="")(0).dataset.x[:5]))
    assert said.shape == (5, 10) and bool(torch.isfinite(said).all())


def test_other_weights_are_refused(backbone, tmp_path):
    spec = spec_of(backbone)
    done = perform(resolve(spec), tmp_path / "done")
    killed_run(spec, tmp_path / "killed", 1)
    save_file(digits_vit(**SIZE, backbone="")(1).init(1), backbone)
    for work in (
        lambda: perform(resolve(spec), tmp_path / "killed", resume=True),
        lambda: replay_run(done.out, quick=True),
    ):
        with pytest.raises(BadInput, match="other frozen weights than"):
            work()


def test_a_forger_of_the_frozen_weights_is_found(backbone, tmp_path):
    done = perform(resolve(spec_of(backbone, rounds=1)), tmp_path / "done")

    def change(folder):
        tree = load_tree(folder / FROZEN)[0]
        save_tree(folder / FROZEN, {n: v + np.float32(1) for n, v in tree.items()})

    for sealed in (False, True):
        with pytest.raises(RunFailed, match=re.escape(FROZEN)):
            replay_run(tampered(done.out, tmp_path / f"forged {sealed}", change, sealed=sealed))


@pytest.mark.filterwarnings("ignore:the model is no better than chance")
def test_an_own_model_takes_a_border_and_is_judged_by_its_own_metric(tmp_path):
    x = np.random.default_rng(0).normal(size=(80, 1, 6, 6)).astype(np.float32)
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(64, 2))
    spec = {k: v for k, v in spec_of("").items() if k != "task"}
    given = {"model": net, "data": (x, (x.mean((1, 2, 3)) > 0).astype(int))}
    right = {"right": lambda outputs, labels: (outputs.argmax(1) == labels).mean()}
    for out in (None, tmp_path / "own"):
        result = fedfleet.run(spec, **given, metrics=right, out=out)
        assert result.metrics["own"]["right"] == pytest.approx(result.metrics["accuracy"])
        assert {"border.table", "net.0.weight", "net.3.bias"} <= result.params.keys()
        assert np.array_equal(result.params["net.0.weight"], net[0].weight.detach().numpy())
    assert fedfleet.replay(tmp_path / "own")["ok"]


def test_a_served_run_has_its_frozen_weights_at_home(backbone, tmp_path):
    import tomli_w

    spec = spec_of(backbone, rounds=1, world={"clients": 2}, pace={"cohort": 2, "t_break": 0.01})
    done, _ = served(written(tmp_path, tomli_w.dumps(spec)), tmp_path)
    assert done.metrics["bytes_up"] == 2 * tree_nbytes(load_tree(done.out / "model.safetensors")[0])
    assert replay_run(done.out)["ok"]
