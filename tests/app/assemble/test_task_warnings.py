"""Warnings about own models and data: probabilities instead of scores, and inputs that nobody scaled."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

import fedfleet
from fedfleet.app.assemble import assemble
from fedfleet.app.spec import resolve

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4)).astype(np.float32)
Y = (X.sum(1) > 0).astype(int)
SPEC = {"world": {"clients": 5}, "pace": {"cohort": 2}, "stop": {"rounds": 1}}
SOFTMAX = nn.Sequential(nn.Linear(4, 2), nn.Softmax(1))


def said(model, x=X, y=Y, **more):
    """What a run warns of, of these two."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fedfleet.run(SPEC, model=model, data=(x, y), **more)
    texts = [str(one.message) for one in caught]
    return {word for word in ("Softmax", "not scaled", "different ranges") for text in texts if word in text}


@pytest.mark.parametrize(
    ("model", "change", "words"),
    [
        (nn.Linear(4, 2), {}, set()),
        (SOFTMAX, {}, {"Softmax"}),
        (nn.Sequential(nn.Linear(4, 2), nn.LogSoftmax(1)), {}, set()),
        (SOFTMAX, {"loss": lambda out, y: nn.functional.nll_loss(out.log(), y, reduction="none")}, set()),
        (nn.Linear(4, 2), {"x": X * [1, 1, 1, 10_000]}, {"different ranges"}),
        (nn.Linear(4, 2), {"x": X * 10_000}, {"not scaled"}),
        (nn.Sequential(nn.Linear(4, 1), nn.Sigmoid()), {"y": X[:, 0] + 0.1}, set()),
    ],
)
def test_what_trains_badly_is_told(model, change, words):
    torch.manual_seed(0)
    assert said(model, **change) == words


def test_tasks_that_ship_are_not_looked_at():
    assert assemble(resolve({**SPEC, "task": "digits_logreg"})).warnings == ()
