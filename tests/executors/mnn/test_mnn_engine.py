"""MNN computes what numpy computes: each operation, each kind of loss, whole models; and what it cannot do is named."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from fedfleet.core import engines
from fedfleet.core.errors import BadInput, Refused
from fedfleet.core.registry import builder, names, parameters
from fedfleet.executors.described_executor import load_engine
from fedfleet.executors.mnn.mnn_engine import KNOWN
from fedfleet.executors.numpy.model import KNOWN as NUMPY_KNOWN
from fedfleet.tasks.description.format import ModelDescription, Operation
from fedfleet.tasks.description.tracer import describe_module, describe_task
from fedfleet.tasks.dropout import AddressedDropout
from tests.executors.numpy.test_operations import LABELS, LAYERS, Scale

pytest.importorskip("_mnncengine")
pytestmark = pytest.mark.slow

MORE = {
    "dropout": (lambda: nn.Sequential(nn.Linear(5, 6), AddressedDropout(0.5, 3)), (5,)),
    "ties": (lambda: nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)), (1, 6, 6)),
}


def both(description):
    mnn, numpy = load_engine("mnn"), load_engine("numpy")
    mnn.limit_threads(1)
    return mnn.load(description), numpy.load(description)


def check_step(description, leaves, x, labels, tolerance=2e-4):
    mnn, numpy = both(description)
    wanted = frozenset(description.trained)
    found, expected = (model.train(leaves, x, labels, wanted, 7) for model in (mnn, numpy))
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-4, atol=1e-6)
    assert found.gradients.keys() == expected.gradients.keys() == wanted
    for name, value in expected.gradients.items():
        scale = max(float(np.abs(value).max()), 1e-3)
        assert np.abs(found.gradients[name] - value).max() <= tolerance * scale, name
    assert found.buffers.keys() == expected.buffers.keys()
    for name, value in expected.buffers.items():
        np.testing.assert_allclose(found.buffers[name], value, rtol=1e-5, atol=1e-6)
    # Another batch of this size, and the first again: nothing of a step stays in the graph.
    other = mnn.train(leaves, np.roll(x, 1, axis=0), labels, wanted, 8)
    again = mnn.train(leaves, x, labels, wanted, 7)
    assert all(np.array_equal(again.gradients[n], v) for n, v in found.gradients.items())
    assert any(not np.array_equal(other.gradients[n], v) for n, v in found.gradients.items())
    np.testing.assert_allclose(mnn.evaluate(leaves, x), numpy.evaluate(leaves, x), atol=1e-5)


@pytest.mark.parametrize("name", [*LAYERS, *MORE])
def test_outputs_and_gradients_are_those_of_numpy(name):
    torch.manual_seed(1)
    make, shape = {**LAYERS, **MORE}[name]
    x = np.random.default_rng(2).normal(size=(5, *shape)).astype(np.float32)
    if name == "ties":
        x[:, :, 2:] = 0  # a window of equal numbers: the first of them takes the gradient
    module = nn.Sequential(Scale(), make(), nn.Flatten())
    description = describe_module(module, x)
    leaves = {n: v.numpy().copy() for n, v in module.state_dict().items()}
    outputs = module.eval()(torch.from_numpy(x)).shape[1]
    check_step(description, leaves, x, np.random.default_rng(3).normal(size=(5, outputs)).astype(np.float32))


@pytest.mark.parametrize("kind", LABELS)
def test_each_kind_of_labels_has_its_gradient(kind):
    outputs, labels = LABELS[kind](np.random.default_rng(4), 6)
    module, x = Scale(), outputs.astype(np.float32)
    leaves = {"factor": np.float32(1.5)}
    check_step(describe_module(module, x), leaves, x, np.asarray(labels))


def test_it_knows_the_operations_that_numpy_knows():
    assert KNOWN.keys() == NUMPY_KNOWN.keys()


def made(name):
    build = builder("tasks", name)
    return build(**({"synthetic": True, "samples": 250} if "synthetic" in parameters(build) else {}))(0)


QUICK = {"digits_cnn", "diabetes_mlp", "digits_traits"}


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.soak) for n in names("tasks")])
def test_every_task_that_ships_trains_as_with_numpy(name):
    task = made(name)
    description, leaves = describe_task(task), {**task.frozen, **task.init(0)}
    # Batch normalisation of four samples divides by small deviations, which makes rounding larger.
    check_step(description, leaves, task.dataset.x[:4], task.dataset.y[:4], 2e-2 if name == "transfer" else 2e-4)


def test_what_it_cannot_compute_is_named(monkeypatch):
    monkeypatch.delitem(KNOWN, "tanh")
    odd = ModelDescription((3,), "<f4", {}, frozenset(), (Operation("tanh", (0,)),), 1)
    with pytest.raises(Refused, match="the mnn engine cannot compute tanh"):
        load_engine("mnn").load(odd)
    wide = ModelDescription((3,), "<f4", {"w": ((3,), "<f8")}, frozenset(), (Operation("linear", (0, "w")),), 1)
    with pytest.raises(Refused, match="single precision, and the weights 'w' are of another type"):
        load_engine("mnn").load(wide)


def test_shapes_that_do_not_fit_are_refused_and_do_not_end_the_process():
    settings = {"stride": [1], "padding": [0], "dilation": [1], "groups": 1}
    leaves = {"w": ((4, 5, 3), "<f4")}
    odd = ModelDescription((3, 9), "<f4", leaves, frozenset({"w"}), (Operation("convolution", (0, "w"), settings),), 1)
    with pytest.raises(Refused, match="the description of the model does not fit together"):
        load_engine("mnn").load(odd)


def test_a_missing_package_is_one_sentence(monkeypatch):
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"needs the package MNN, which is not installed; pip install 'fedfleet\[mnn\]'"):
        engines.require_engine("mnn")


def test_loading_prints_nothing():
    code = "from fedfleet.executors.described_executor import load_engine; load_engine('mnn'); print('{}')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ))
    assert done.stdout == "{}\n"
