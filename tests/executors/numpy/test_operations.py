"""Each operation of the numpy engine against PyTorch: outputs and gradients, on shapes and settings that models use."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedfleet.executors.numpy.losses import loss_and_gradient, sample_counts
from fedfleet.executors.numpy.matrix_layers import LAYERS as MATRIX_LAYERS
from fedfleet.executors.numpy.model import KNOWN, NumpyModel
from fedfleet.executors.numpy.normalisation import NORMALISATIONS
from fedfleet.executors.numpy.operations import OPERATIONS, ForwardPass, erf
from fedfleet.executors.numpy.recurrence import RECURRENCES
from fedfleet.tasks.description.tracer import describe_module
from fedfleet.tasks.scores import sample_counts as torch_counts
from fedfleet.tasks.scores import sample_losses


class Takes(nn.Module):
    """A recurrent layer whose states are the output."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


LAYERS = {
    "linear": (lambda: nn.Linear(5, 3, bias=False), (4, 5)),
    "conv1d": (lambda: nn.Conv1d(3, 4, 5, stride=2, padding=2, dilation=2), (3, 17)),
    "conv2d": (lambda: nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(1, 0)), (2, 7, 6)),
    "grouped": (lambda: nn.Conv2d(4, 6, 3, padding="same", groups=2), (4, 5, 5)),
    "depthwise": (lambda: nn.Conv2d(4, 4, 3, groups=4, bias=False), (4, 5, 5)),
    "max_pool": (lambda: nn.MaxPool2d(3, 2, padding=1), (2, 7, 7)),
    "max_pool1d": (lambda: nn.MaxPool1d(2), (2, 9)),
    "avg_pool": (lambda: nn.AvgPool2d(2, 1), (2, 5, 5)),
    "adaptive": (lambda: nn.AdaptiveAvgPool2d(2), (2, 6, 4)),
    "layer_norm": (lambda: nn.LayerNorm((3, 4)), (2, 3, 4)),
    "group_norm": (lambda: nn.GroupNorm(2, 4), (4, 5, 5)),
    "batch_norm": (lambda: nn.BatchNorm2d(3), (3, 4, 4)),
    "gelu": (lambda: nn.GELU(), (6,)),
    "gelu tanh": (lambda: nn.GELU("tanh"), (6,)),
    "hardswish": (lambda: nn.Sequential(nn.Linear(6, 6), nn.Hardswish(), nn.Hardsigmoid(), nn.ReLU6()), (6,)),
    "silu": (lambda: nn.Sequential(nn.SiLU(), nn.Sigmoid(), nn.Tanh(), nn.LeakyReLU(0.2)), (6,)),
    "lstm": (lambda: Takes(nn.LSTM(3, 5, num_layers=2, batch_first=True)), (6, 3)),
    "lstm plain": (lambda: Takes(nn.LSTM(3, 5, bias=False, batch_first=True)), (6, 3)),
    "gru": (lambda: Takes(nn.GRU(3, 5, num_layers=2, batch_first=True)), (6, 3)),
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_outputs_and_gradients_are_those_of_pytorch(name, training):
    torch.manual_seed(1)
    make, shape = LAYERS[name]
    module, x = make(), np.random.default_rng(2).normal(size=(5, *shape)).astype(np.float32)
    # A weight before the layer shows whether a gradient passes through it.
    whole = nn.Sequential(Scale(), module)
    description = describe_module(whole, x)
    state = {n: v.clone() for n, v in whole.state_dict().items()}
    leaves = {n: v.numpy().copy() for n, v in state.items()}
    whole.train(training)
    trained = sorted(description.trained)
    output = whole(torch.from_numpy(x))
    direction = torch.randn_like(output)
    gradients = torch.autograd.grad((output * direction).sum(), [dict(whole.named_parameters())[n] for n in trained])
    model = NumpyModel(description)
    tape = model.record(leaves, x, trained, ForwardPass(len(x), training=training))
    np.testing.assert_allclose(tape.output, output.detach().numpy(), rtol=1e-4, atol=1e-5)
    found = model.gradients(tape, direction.numpy(), trained)
    for leaf, gradient in zip(trained, gradients, strict=True):
        np.testing.assert_allclose(found[leaf], gradient.numpy(), rtol=2e-4, atol=2e-5, err_msg=leaf)
    after = whole.state_dict()
    for leaf, value in tape.buffers.items():
        np.testing.assert_allclose(value, after[leaf].numpy(), rtol=1e-5, atol=1e-6, err_msg=leaf)
    assert bool(tape.buffers) == (training and name == "batch_norm")


class Scale(nn.Module):
    """One weight that everything passes."""

    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        return x * self.factor


LABELS = {
    "classes": lambda rng, n: (rng.normal(size=(n, 4)), rng.integers(0, 4, n)),
    "numbers": lambda rng, n: (rng.normal(size=(n, 3)), rng.normal(size=(n, 3)).astype(np.float32)),
    "labels": lambda rng, n: (rng.normal(size=(n, 3)), rng.random((n, 3)) > 0.5),
    "places": lambda rng, n: (rng.normal(size=(n, 6, 4)), np.where(rng.random((n, 6)) < 0.3, -100, rng.integers(0, 4, (n, 6)))),
}


@pytest.mark.parametrize("kind", LABELS)
@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 9), scale=st.sampled_from([1.0, 30.0]))
def test_losses_gradients_and_scores_are_those_of_pytorch(kind, seed, n, scale):
    outputs, labels = LABELS[kind](np.random.default_rng(seed), n)
    outputs = (scale * outputs).astype(np.float32)
    tensor, truth = torch.from_numpy(outputs).requires_grad_(), torch.from_numpy(np.asarray(labels))
    losses = sample_losses(tensor, truth)
    (gradient,) = torch.autograd.grad(losses.mean(), tensor)
    found, of_outputs = loss_and_gradient(outputs, np.asarray(labels))
    np.testing.assert_allclose(found, losses.detach().numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(of_outputs, gradient.numpy(), rtol=1e-4, atol=1e-6)
    spread = np.full(3, 2.0) if kind == "numbers" else None
    expected = torch_counts(tensor.detach(), truth, None if spread is None else torch.from_numpy(spread))
    for mine, theirs in zip(sample_counts(outputs, np.asarray(labels), spread), expected, strict=True):
        assert mine.tolist() == theirs.tolist()


def test_each_operation_has_one_place():
    tables = OPERATIONS, NORMALISATIONS, MATRIX_LAYERS, RECURRENCES
    assert sum(map(len, tables)) == len(KNOWN)


@given(st.floats(-6, 6, width=32))
def test_the_error_function(x):
    assert abs(float(erf(np.array([x], np.float32))[0]) - float(torch.erf(torch.tensor(x)))) < 5e-7
