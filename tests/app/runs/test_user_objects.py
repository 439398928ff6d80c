"""How a model or a function is noted: as layers where it can be, as code where it was tried, else for the hand."""

import functools

import numpy as np
import pytest
import torch

from fedfleet.app.runs.user_objects import function_entry, matches_entry, model_entry, model_factory, rebuild_object
from tests.app.runs.owned import Net, focal, row, share_right, smooth

X = np.random.default_rng(0).normal(size=(2, 5)).astype(np.float32)


class Odd(torch.nn.Linear):
    """Answers otherwise each time it is made."""

    made = 0

    def __init__(self):
        super().__init__(5, 2)
        Odd.made += 1
        self.turn = Odd.made

    def forward(self, x):
        return super().forward(x) * self.turn


@pytest.mark.parametrize(
    ("model", "by"),
    [
        (row(), "layers"), (row, "layers"), (lambda: torch.nn.Linear(5, 2), "layers"), (torch.nn.Linear(5, 2), "layers"),
        (Net, "code"), (Net(), "code"), (functools.partial(Net, 3), "code"),
        (Net(3), "hand"), (lambda: Net(), "hand"), (Odd(), "hand"),
    ],
)  # fmt: skip
def test_how_models_are_noted(model, by):
    entry, text = model_entry(model, X)
    assert entry.by == by
    if by != "hand":
        again, first = rebuild_object(entry, text), model_factory(model)()
        again.load_state_dict(first.state_dict())
        assert torch.equal(again(torch.from_numpy(X)), first(torch.from_numpy(X)))
        assert matches_entry(entry, model)


class Held:
    def __init__(self, power=None):
        if power:
            self.power = power

    def __call__(self, outputs, labels):
        return focal(outputs, labels)


@pytest.mark.parametrize(
    ("function", "by"),
    [
        (focal, "code"), (Held(), "code"), (Held(2), "hand"), (lambda o, t: o, "hand"),
        (torch.nn.CrossEntropyLoss(label_smoothing=0.1), "layers"), (torch.nn.functional.multi_margin_loss, "layers"),
    ],
)  # fmt: skip
def test_how_functions_are_noted(function, by):
    entry, text = function_entry(function)
    assert entry.by == by
    if by != "hand":
        outputs, labels = torch.randn(4, 2), torch.tensor([0, 1, 1, 0])
        assert torch.equal(rebuild_object(entry, text)(outputs, labels), function(outputs, labels))


def test_things_are_told_apart():
    assert not matches_entry(function_entry(focal)[0], smooth)
    assert not matches_entry(function_entry(focal)[0], share_right)
    assert not matches_entry(model_entry(functools.partial(Net, 3), X)[0], functools.partial(Net, 4))
    assert not matches_entry(model_entry(row(), X)[0], torch.nn.Linear(5, 2))
    assert matches_entry(model_entry(lambda: Net(), X)[0], Net), "of a lambda nothing is known"


def test_a_given_module_is_never_changed():
    model = row()
    assert model_factory(model)() is not model and model_factory(row) is row and model_factory(Net) is Net
