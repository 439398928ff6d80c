"""The forward pass is tried: draws, changes, dependence on the batch, parameters out of reach; and nothing of it remains."""

import random
import re

import numpy as np
import pytest
import torch
from torch import nn

from fedfleet.core.errors import BadInput
from fedfleet.tasks.data_checks import checked_data
from fedfleet.tasks.own_model import trainable_build
from fedfleet.tasks.task_checks import check_fit

X = np.random.default_rng(1).normal(size=(60, 5)).astype(np.float32)
DATA = checked_data((X, np.arange(60) % 3))


class Net(nn.Module):
    """A linear layer, and what a test does with it."""

    def __init__(self, forward, **parts):
        super().__init__()
        self.inner, self.does = nn.Linear(5, 3), forward
        for name, part in parts.items():
            if isinstance(part, nn.Module | nn.Parameter):
                setattr(self, name, part)
            else:
                self.register_buffer(name, part)

    def forward(self, x):
        return self.does(self, x)


def found(model, data=DATA):
    return check_fit(trainable_build(model, data.x), data)


def clamping(net, x):
    with torch.no_grad():
        net.inner.weight.clamp_(-0.01, 0.01)
    return net.inner(x)


def counting(net, x):
    net.count += 1
    return net.inner(x)


def counting_in_training(net, x):
    if net.training:
        net.count += 1
    return net.inner(x)


WARNED = {
    "random scores": (lambda n, x: n.inner(x) + torch.randn(3), {}, "torch's global generator in evaluation"),
    "random scores of NumPy": (lambda n, x: n.inner(x) * float(np.random.rand()), {}, "NumPy's global generator in evaluation"),
    "random scores of Python": (lambda n, x: n.inner(x) * random.random(), {}, "Python's global generator in evaluation"),
    "the mean of the batch": (lambda n, x: n.inner(x - x.mean(0)), {}, "depend on the other samples of the batch"),
    "a count": (counting, {"count": torch.zeros(())}, "changes buffer 'count' in evaluation"),
    "functional dropout": (
        lambda n, x: n.inner(nn.functional.dropout(x, 0.5, n.training)),
        {},
        "torch's global generator in training.*nn.Dropout",
    ),
    "a layer that is not called": (
        lambda n, x: n.inner(x),
        {"spare": nn.Linear(5, 3)},
        r"does not reach 2 parameters \('spare.weight', 'spare.bias'\)",
    ),
    "a parameter that is detached": (
        lambda n, x: n.inner(x) * n.scale.detach(),
        {"scale": nn.Parameter(torch.ones(3))},
        "parameter 'scale'",
    ),
}
FINE = {
    "a layer": (lambda n, x: n.inner(x), {}),
    "a layer for dropout": (lambda n, x: n.drop(n.inner(x)), {"drop": nn.Dropout(0.5)}),
    "batch normalisation": (lambda n, x: n.norm(n.inner(x)), {"norm": nn.BatchNorm1d(3)}),
    "an infinite constant": (lambda n, x: n.inner(x), {}),
    "a count in training": (counting_in_training, {"count": torch.zeros(())}),
}
REFUSED = {
    "parameters that forward changes": (clamping, {}, "changes parameter 'inner.weight'"),
    "no gradient": (lambda n, x: n.inner(x).detach(), {}, "nothing can be learnt; remove detach"),
    "one sample fails": (lambda n, x: n.inner(x.squeeze()).squeeze(), {}, "single sample.*keep the first dimension"),
    "a fixed size of batches": (lambda n, x: n.inner(x.view(8, -1)), {}, "cannot take a single sample"),
    "an infinite buffer": (
        lambda n, x: n.inner(x),
        {"mask": torch.tensor([-torch.inf])},
        "buffer 'mask' holds values that are not finite; .*persistent=False",
    ),
    "a double buffer": (lambda n, x: n.inner(x), {"mask": torch.zeros(2).double()}, "buffer 'mask' is torch.float64"),
    "training fails": (lambda n, x: n.inner(x if not n.training else x[:, :2]), {}, "fails in training mode on 8 samples"),
}


@pytest.mark.parametrize("name", WARNED)
def test_what_works_and_is_probably_wrong_is_said(name):
    forward, parts, says = WARNED[name]
    sentences = found(Net(forward, **parts))
    assert any(re.search(says, sentence) for sentence in sentences), sentences


@pytest.mark.parametrize("name", FINE)
def test_what_is_fine_is_not_mentioned(name):
    forward, parts = FINE[name]
    assert found(Net(forward, **parts)) == []


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_trained_is_refused(name):
    forward, parts, says = REFUSED[name]
    with pytest.raises(BadInput, match=says) as told:
        found(Net(forward, **parts))
    assert "\n" not in str(told.value)


def test_a_mask_that_does_not_travel_may_be_infinite():
    net = Net(lambda n, x: n.inner(x))
    net.register_buffer("mask", torch.tensor([-torch.inf]), persistent=False)
    assert found(net) == []


def test_half_precision_is_refused_with_its_cure():
    with pytest.raises(BadInput, match=r"torch.float16; train in float32, with model.float\(\)"):
        found(nn.Linear(5, 3).half())


def test_an_embedding_must_know_the_largest_token_wherever_it_is():
    tokens = np.zeros((40, 6), np.int64)
    tokens[31, 2] = 9
    data = checked_data((tokens, tokens % 3), "sequence_labels")
    with pytest.raises(BadInput, match="the largest token is 9, so give the embedding 10 rows"):
        found(nn.Sequential(nn.Embedding(9, 3)), data)
    assert found(nn.Sequential(nn.Embedding(10, 3)), data) == []


def test_the_checks_leave_model_and_generators_as_they_were():
    model = Net(counting_in_training, count=torch.zeros(()), drop=nn.Dropout(0.5))
    before = {n: v.clone() for n, v in model.state_dict().items()}
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    found(model)
    found(lambda: Net(lambda n, x: n.inner(x) + torch.randn(3)))
    assert all(torch.equal(v, before[n]) for n, v in model.state_dict().items()) and model.training
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1]) and random.getstate() == states[2]
