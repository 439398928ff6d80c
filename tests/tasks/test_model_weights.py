"""Weights from disk: what fits is taken exactly, what does not is named, and no pickle is ever read."""

import json
import re

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from fedfleet.core.errors import BadInput
from fedfleet.tasks.model_weights import fitted_weights, read_weights

FIRST = {
    "body.weight": np.zeros((4, 3), np.float32),
    "body.bias": np.zeros(4, np.float32),
    "head.weight": np.zeros((2, 4), np.float32),
}
FULL = {"body.weight": torch.ones(4, 3), "body.bias": torch.full((4,), 2.0), "head.weight": torch.full((2, 4), 3.0)}


def saved(folder, tensors, name="w.safetensors"):
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / name)
    return folder / name


def prefixed(prefix, tensors=FULL):
    return {f"{prefix}{n}": v for n, v in tensors.items()}


def equal(tree, tensors=FULL):
    return tree.keys() == tensors.keys() and all(np.array_equal(tree[n], v.float().numpy()) for n, v in tensors.items())


def test_a_file_that_fits_is_taken_exactly(tmp_path):
    fitted = fitted_weights(saved(tmp_path, FULL), FIRST)
    assert equal(fitted.tree) and fitted.notes == () and list(fitted.tree) == list(FIRST)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_other_number_types_become_those_of_the_model(tmp_path, kind):
    tree = fitted_weights(saved(tmp_path, {n: v.to(kind) for n, v in FULL.items()}), FIRST).tree
    assert equal(tree) and all(v.dtype == np.float32 for v in tree.values())


def test_a_prefix_that_all_names_have_is_removed_with_a_word(tmp_path):
    fitted = fitted_weights(saved(tmp_path, prefixed("module.")), FIRST)
    assert equal(fitted.tree) and "the prefix 'module.' of its names was left out" in fitted.notes[0]
    deep = {f"model.bert.{n}": v for n, v in FIRST.items()}
    longer = fitted_weights(saved(tmp_path, FULL), deep)
    assert list(longer.tree) == list(deep) and "'model.bert.' was put before" in longer.notes[0]
    wrapped = fitted_weights(saved(tmp_path, FULL), {f"model.{n}": v for n, v in FIRST.items()})
    assert wrapped.notes == (), "that FedFleet wrapped the model is nobody's affair"


def test_a_folder_of_hugging_face_with_one_file_or_an_index(tmp_path):
    saved(tmp_path / "one", FULL, "model.safetensors")
    assert equal(read_weights(tmp_path / "one"))
    names = list(FULL)
    for i, name in enumerate(names):
        saved(tmp_path / "many", {name: FULL[name]}, f"model-{i}.safetensors")
    index = {"metadata": {}, "weight_map": {n: f"model-{i}.safetensors" for i, n in enumerate(names)}}
    (tmp_path / "many/model.safetensors.index.json").write_text(json.dumps(index))
    assert equal(read_weights(tmp_path / "many"))
    save_file({"other": torch.ones(1)}, tmp_path / "many/model-1.safetensors")
    with pytest.raises(BadInput, match=r"lack 'body.bias', which model.safetensors.index.json lists"):
        read_weights(tmp_path / "many")


@pytest.mark.parametrize("place", ["../secret.safetensors", "/etc/x.safetensors", "model.bin"])
def test_an_index_names_only_files_beside_it(tmp_path, place):
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": place}}))
    with pytest.raises(BadInput, match=r"which is not a .safetensors file beside it"):
        read_weights(tmp_path)


def test_what_is_missing_unexpected_or_of_another_shape_is_named(tmp_path):
    lacking = {f"extra{i}": torch.zeros(1) for i in range(5)} | {"head.weight": torch.zeros(7, 4), "body.bias": torch.zeros(4)}
    with pytest.raises(BadInput) as told:
        fitted_weights(saved(tmp_path, lacking), FIRST)
    text = str(told.value)
    assert "'head.weight' has the shape (7, 4) there and (2, 4) in the model" in text and "it lacks 'body.weight'" in text
    assert "the model lacks 5 arrays ('extra0', 'extra1', 'extra2', ..)" in text and "partial_weights=True" in text
    assert "\n" not in text


def test_on_request_what_fits_is_taken_and_the_rest_is_as_before(tmp_path):
    first = {**FIRST, "head.weight": np.full((2, 4), 9.0, np.float32)}
    fitted = fitted_weights(saved(tmp_path, FULL | {"head.weight": torch.zeros(7, 4)}), first, partial=True)
    assert fitted.tree["body.bias"][0] == 2.0 and fitted.tree["head.weight"][0, 0] == 9.0
    assert "2 of 3 arrays are from" in fitted.notes[0] and "'head.weight' has the shape (7, 4)" in fitted.notes[0]
    assert fitted_weights(saved(tmp_path, FULL), FIRST, partial=True).notes == ()


@pytest.mark.parametrize("partial", [False, True])
def test_weights_of_which_nothing_fits_are_refused(tmp_path, partial):
    with pytest.raises(BadInput, match=r"no array of .* fits the model"):
        fitted_weights(saved(tmp_path, {"a": torch.zeros(2)}), FIRST, partial=partial)


def test_a_pickle_is_refused_with_the_line_that_converts_it(tmp_path):
    for name in ("pytorch_model.bin", "net.pt", "net.PTH"):
        path = tmp_path / name
        torch.save(FULL, path)
        with pytest.raises(BadInput, match="is a pickle, and reading one can run code; convert") as told:
            read_weights(path)
    line = re.search(r'python -c "(.*)"', str(told.value))[1]
    exec(line)
    assert equal(read_weights(path.with_suffix(".safetensors")))
    (tmp_path / "folder").mkdir()
    torch.save(FULL, tmp_path / "folder/pytorch_model.bin")
    with pytest.raises(BadInput, match=r"pytorch_model.bin is a pickle"):
        read_weights(tmp_path / "folder")


def test_files_that_are_none_are_refused(tmp_path):
    (tmp_path / "torn.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{}")
    (tmp_path / "w.txt").write_text("1")
    (tmp_path / "empty").mkdir()
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun/run.db").write_text("")
    saved(tmp_path, {**FULL, "body.bias": torch.full((4,), torch.nan)}, "nan.safetensors")
    for name, says in {
        "nothing": "there is no file or folder", "torn.safetensors": "cannot be read", "w.txt": "not a .safetensors file",
        "empty": "has no model.safetensors", "begun": "not finished and has no model yet",
    }.items():  # fmt: skip
        with pytest.raises(BadInput, match=says):
            read_weights(tmp_path / name)
    with pytest.raises(BadInput, match=r"'body.bias' in .*nan.safetensors holds values that are not finite"):
        fitted_weights(tmp_path / "nan.safetensors", FIRST)
