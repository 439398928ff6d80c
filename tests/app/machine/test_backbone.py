"""Making a backbone: the file, what it was made of, and data that the task must not have."""

import pytest

from fedfleet.app.machine.backbone import pretrain_task
from fedfleet.core.errors import BadInput
from fedfleet.store.files import load_tree
from fedfleet.tasks import synthetic as module

SMALL = ["width=8", "heads=2", "depth=1"]


@pytest.fixture(autouse=True)
def _few_glyphs(monkeypatch):
    monkeypatch.setattr(module, "GLYPH_SAMPLES", 0)
    monkeypatch.setattr(module.glyphs, "__kwdefaults__", {"classes": 3, "samples": 60})


def make(out, task="digits_vit", words=SMALL, **more):
    return pretrain_task(task, words, **{"on": "glyphs", "epochs": 1, "seed": 0, "device": "cpu", "out": out, **more})


def test_a_task_begins_from_the_file(tmp_path):
    from fedfleet.tasks.digits import digits_vit

    result = make(tmp_path / "b.safetensors")
    assert {*result} == {"accuracy", "epochs", "seconds", "out"} and 0 <= result["accuracy"] <= 1
    tree, about = load_tree(tmp_path / "b.safetensors")
    assert (about["task"], about["on"], about["classes"]) == ("digits_vit", "glyphs", 3)
    task = digits_vit(width=8, heads=2, depth=1, backbone=result["out"])(0)
    assert (task.init(0)["patches.weight"] == tree["patches.weight"]).all()


def test_data_that_are_not_here_are_not_needed(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "b.safetensors", "chars74k_vit", ["width=8", "heads=2", "depth=1"])


def test_the_tasks_own_data_are_refused(tmp_path):
    with pytest.raises(BadInput, match="1797 of its samples are also samples of digits_vit"):
        make(tmp_path / "b.safetensors", on="digits_mlp")
    with pytest.raises(BadInput, match="not pictures"):
        make(tmp_path / "b.safetensors", "har_cnn", ["synthetic=true", "samples=20"])
    assert not (tmp_path / "b.safetensors").exists()
