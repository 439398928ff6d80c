"""PyTorch's own layers as data: what is described is made again exactly; nothing else is ever made."""

import json
from collections import OrderedDict
from functools import partial

import pytest
import torch
from torch import nn

from fedfleet.core.errors import BadInput
from fedfleet.tasks.layers import build_from, build_matching, describe_loss, describe_model, same_model

ROWS = [
    nn.Linear(4, 3),
    nn.Linear(4, 3, bias=False),
    nn.Sequential(nn.Conv2d(1, 4, 3, padding="same", bias=False), nn.BatchNorm2d(4), nn.ReLU(True), nn.MaxPool2d(2),
                  nn.Flatten(), nn.Dropout(0.3), nn.Linear(64, 5)),
    nn.Sequential(OrderedDict(first=nn.Linear(4, 4), inner=nn.Sequential(nn.GELU("tanh"), nn.LayerNorm(4, bias=False)))),
    nn.Sequential(nn.Embedding(10, 4, padding_idx=0), nn.Flatten(), nn.LogSoftmax(1)),
    nn.Sequential(nn.Conv1d(2, 4, 3, stride=2, padding=1, padding_mode="circular"), nn.GroupNorm(2, 4), nn.PReLU(4)),
    nn.Sequential(nn.AdaptiveAvgPool2d((2, None)), nn.LeakyReLU(0.2), nn.ELU(), nn.Identity()),
]  # fmt: skip


@pytest.mark.parametrize("module", ROWS, ids=lambda m: repr(m)[:20])
def test_a_description_makes_the_same_model(module):
    result = json.loads(json.dumps(describe_model(module)))
    again = build_matching(result, module.state_dict())
    assert repr(again) == repr(module)
    assert list(again.state_dict()) == list(module.state_dict())


class Own(nn.Linear):
    pass


def tied():
    one = nn.Linear(4, 4)
    return nn.Sequential(one, nn.ReLU(), one)


def patched():
    module = nn.Linear(4, 4)
    module.forward = lambda x: x
    return module


def hooked():
    module = nn.Linear(4, 4)
    module.register_forward_hook(lambda *_: None)
    return nn.Sequential(module)


@pytest.mark.parametrize(
    "module",
    [Own(4, 3), tied(), patched(), hooked(), nn.Linear(4, 3).double(), nn.LSTM(3, 4), nn.Sequential(Own(4, 3))],
)
def test_what_would_not_be_the_same_is_not_described(module):
    assert describe_model(module) is None


def test_losses():
    outputs, labels = torch.randn(6, 3), torch.tensor([0, 1, 2, 0, 1, 2])
    for loss in (nn.CrossEntropyLoss(label_smoothing=0.2), nn.MultiMarginLoss(p=2), nn.functional.cross_entropy,
                 partial(nn.functional.cross_entropy, label_smoothing=0.1, reduction="none")):  # fmt: skip
        again = build_from(json.loads(json.dumps(describe_loss(loss))))
        assert torch.equal(again(outputs, labels), loss(outputs, labels))
    for other in (
        nn.CrossEntropyLoss(weight=torch.ones(3)),
        nn.functional.dropout,
        lambda o, t: o,
        partial(print, "x"),
    ):
        assert describe_loss(other) is None


@pytest.mark.parametrize(
    "result",
    [
        {}, {"use": None}, {"use": "Module"}, {"use": "init"}, {"use": "utils"}, {"use": "__builtins__"}, {"use": ["Linear"]},
        {"use": "Linear"}, {"use": "Linear", "in_features": "4", "out_features": 3}, {"use": "Linear", "device": "meta"},
        {"use": "Linear", "in_features": -1, "out_features": 3}, {"use": "Sequential"}, {"use": "Sequential", "layers": 3},
        {"use": "Sequential", "layers": [["a.b", {"use": "ReLU"}]]},
        {"use": "Sequential", "layers": [["forward", {"use": "ReLU"}]]},
        {"use": "cross_entropy", "weight": {"a": 1}}, {"use": "dropout"},
    ],
)  # fmt: skip
def test_whatever_else_is_refused(result):
    with pytest.raises(BadInput):
        build_from(result)


def test_a_description_that_nests_for_ever_is_refused():
    result = {"use": "ReLU"}
    for _ in range(500):
        result = {"use": "Sequential", "layers": [["0", result]]}
    with pytest.raises(BadInput):
        build_from(result)


def test_a_model_larger_than_its_weights_takes_no_memory():
    huge = {"use": "Linear", "in_features": 2**20, "out_features": 2**20}
    with pytest.raises(BadInput, match="does not fit its weights"):
        build_matching(huge, nn.Linear(2, 2).state_dict())


def test_alike_means_the_same_answers():
    import numpy as np

    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    one = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    assert same_model(one, nn.Sequential(nn.Linear(4, 4), nn.ReLU()), x)
    assert not same_model(one, nn.Sequential(nn.Linear(4, 4), nn.Tanh()), x)
    assert not same_model(one, nn.Sequential(nn.Linear(4, 3), nn.ReLU()), x)
    assert not same_model(one, "a text", x)
    assert not same_model(one, nn.Sequential(nn.Linear(4, 4), nn.ReLU()), x[:, :3]), "what cannot be tried is not known"
