"""`fedfleet bench`."""

import json

import pytest

from fedfleet.tasks.synthetic import glyphs
from fedfleet.world.bases import load_devices
from tests.app.specs import refused

pytestmark = pytest.mark.slow

SMALL = ("--task", "mlp", "--cohort", 3, "--steps", 2, "--batch", 4)


def test_bench_train_answers_by_the_contract(fedfleet):
    code, out, err = fedfleet("bench", "train", *SMALL, "--form", "loop", "--json")
    assert (code, err) == (0, "")
    wanted = {"naive_seconds", "stacked_seconds", "ratio", "max_abs_difference", "max_rel_difference"}
    assert wanted <= set(json.loads(out))


def test_bad_input(fedfleet):
    refused(fedfleet("bench", "train", "--form", "looop"), "--form", "did you mean 'loop'")
    refused(fedfleet("bench", "train", "--device", "gpu"), "--device")
    refused(fedfleet("bench", "train", "--task", "mpl"), "did you mean 'mlp'")
    refused(fedfleet("bench", "train", "--cohort", 0), "--cohort")


def test_this_device_becomes_a_row(fedfleet, tmp_path):
    path = tmp_path / "mine.json"
    words = ("profile", "--task", "digits_logreg", "--iterations", 3, "--out", path)
    assert fedfleet(*words, "--id", "one")[0] == 0
    assert fedfleet(*words, "--id", "two")[0] == 0
    code, out, _ = fedfleet(*words, "--id", "one", "--json")
    got = json.loads(out)
    assert code == 0
    assert got["row"]["seconds_per_sample"] > 0
    assert load_devices(str(path)).ids.tolist() == ["two", "one"], "a device is replaced by its newer measurement"
    (tmp_path / "other.json").write_text("{}")
    assert fedfleet("profile", "--task", "digits_logreg", "--iterations", 1, "--out", tmp_path / "other.json")[0] == 2
    assert (tmp_path / "other.json").read_text() == "{}", "what is not a devices file is left alone"


def test_a_misspelt_task_is_refused(fedfleet):
    refused(fedfleet("profile", "--task", "digits_cn"), "did you mean 'digits_cnn'")


SMALL_BACKBONE = ("digits_vit", "width=4", "heads=1", "depth=1", "--epochs", 1, "--device", "cpu")


def test_the_answer_is_by_the_contract(fedfleet, tmp_path, monkeypatch):
    monkeypatch.setattr(glyphs, "__kwdefaults__", {"classes": 3, "samples": 60})
    code, out, err = fedfleet("pretrain", *SMALL_BACKBONE, "--out", tmp_path / "b.safetensors", "--json")
    assert code == 0 and "epoch 1 of 1" in err
    result = json.loads(out)
    assert list(result) == ["accuracy", "epochs", "seconds", "out"] and result["epochs"] == 1


def test_bad_input_of_pretrain(fedfleet, tmp_path):
    file = tmp_path / "b.safetensors"
    refused(fedfleet("pretrain", "digits_vitt", "--out", file), "did you mean 'digits_vit'")
    refused(fedfleet("pretrain", *SMALL_BACKBONE, "--out", tmp_path / "no" / "b"), "--out", "folder that exists")
    refused(fedfleet("pretrain", *SMALL_BACKBONE, "--out", file, "--device", "gpu"), "--device")
    refused(fedfleet("pretrain", *SMALL_BACKBONE, "--out", file, "--on", "digits_cnn"), "--on digits_cnn", "also")
    refused(fedfleet("pretrain", *SMALL_BACKBONE, "--out", file, "--on", "mnist"), "--on")
    assert not file.exists()
