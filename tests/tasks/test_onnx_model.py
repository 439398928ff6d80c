"""An ONNX file as the model of a task: found by its name, pinned by its hash, made for samples of its own shape."""

import numpy as np
import pytest
import torch

from fedfleet.core.errors import BadInput
from fedfleet.tasks.data_checks import checked_data
from fedfleet.tasks.description.format import ModelDescription, Operation
from fedfleet.tasks.description.onnx_export import to_onnx
from fedfleet.tasks.file_hash import path_hash
from fedfleet.tasks.onnx_model import described_net, is_onnx, onnx_net, onnx_place, with_file_weights
from fedfleet.tasks.own_model import own_recipe
from fedfleet.tasks.task import fit_task

LINEAR = ModelDescription((3,), "<f4", {"w": ((2, 3), "<f4")}, frozenset({"w"}), (Operation("linear", (0, "w")),), 1)
WEIGHTS = {"w": np.arange(6, dtype=np.float32).reshape(2, 3)}
X = np.eye(3, dtype=np.float32)


@pytest.fixture
def file(tmp_path):
    pytest.importorskip("onnx")
    path = tmp_path / "net.onnx"
    path.write_bytes(to_onnx(LINEAR, WEIGHTS))
    return path


def test_the_ending_of_a_name_means_a_file():
    assert is_onnx("net.onnx") and is_onnx("Some/NET.ONNX")
    assert not is_onnx("package.module:Net") and not is_onnx("onnx")


def test_a_file_that_is_not_there_is_named_with_the_nearest_that_is(tmp_path):
    (tmp_path / "net.onnx").touch()
    assert onnx_place(str(tmp_path / "net.onnx")) == tmp_path / "net.onnx"
    with pytest.raises(BadInput, match=r"task\.model: there is no file .*nte\.onnx.*net\.onnx"):
        onnx_place(str(tmp_path / "nte.onnx"))


def test_the_model_of_a_file_begins_with_its_weights(file):
    for digest in (None, path_hash(file)):
        net = onnx_net(str(file), digest)((3,), 2)
        with torch.no_grad():
            np.testing.assert_allclose(net(torch.from_numpy(X)).numpy(), WEIGHTS["w"].T)


def test_a_file_that_changed_is_refused_and_one_without_a_hash_is_read_anew(file):
    pinned, free = onnx_net(str(file), path_hash(file)), onnx_net(str(file), None)
    pinned((3,), 2), free((3,), 2)
    file.write_bytes(to_onnx(LINEAR, {"w": 2 * WEIGHTS["w"]}))
    with pytest.raises(BadInput, match=r"net\.onnx has changed since this run was described; restore it"):
        pinned((3,), 2)
    with torch.no_grad():
        np.testing.assert_allclose(free((3,), 2)(torch.from_numpy(X)).numpy(), 2 * WEIGHTS["w"].T)


def test_samples_of_another_shape_are_refused():
    with pytest.raises(BadInput, match=r"net\.onnx takes samples of shape \(3,\), and those here have \(4,\)"):
        described_net(LINEAR, WEIGHTS, "net.onnx")((4,))


def test_a_task_says_that_its_first_weights_came_from_a_file():
    data = checked_data((np.repeat(X, 4, axis=0), np.arange(12) % 2))
    recipe = own_recipe(fit_task("own", lambda: data, described_net(LINEAR, WEIGHTS, "net.onnx")))
    changed = with_file_weights(recipe)
    task = changed(0)
    assert recipe(0).first_weights != "file" and task.first_weights == "file"
    assert changed.fit(0, task.dataset).first_weights == "file"
    np.testing.assert_array_equal(task.init(0)["w"], WEIGHTS["w"])
