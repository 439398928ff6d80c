"""`fedfleet pretrain`."""

import json

from fedfleet.tasks.glyphs import glyphs
from tests.app.specs import refused

SMALL = ("digits_vit", "width=4", "heads=1", "depth=1", "--epochs", 1, "--device", "cpu")


def test_the_answer_is_by_the_contract(fedfleet, tmp_path, monkeypatch):
    monkeypatch.setattr(glyphs, "__kwdefaults__", {"classes": 3, "samples": 60})
    code, out, err = fedfleet("pretrain", *SMALL, "--out", tmp_path / "b.safetensors", "--json")
    assert code == 0 and "epoch 1 of 1" in err
    result = json.loads(out)
    assert list(result) == ["accuracy", "epochs", "seconds", "out"] and result["epochs"] == 1


def test_bad_input(fedfleet, tmp_path):
    file = tmp_path / "b.safetensors"
    refused(fedfleet("pretrain", "digits_vitt", "--out", file), "did you mean 'digits_vit'")
    refused(fedfleet("pretrain", *SMALL, "--out", tmp_path / "no" / "b"), "--out", "folder that exists")
    refused(fedfleet("pretrain", *SMALL, "--out", file, "--device", "gpu"), "--device")
    refused(fedfleet("pretrain", *SMALL, "--out", file, "--on", "digits_cnn"), "--on digits_cnn", "too")
    refused(fedfleet("pretrain", *SMALL, "--out", file, "--on", "mnist"), "--on")
    assert not file.exists()
