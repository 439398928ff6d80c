"""An own model and own arrays: every mistake of a newcomer is one sentence with its cure, before anything is trained."""

import numpy as np
import pytest
import torch
from torch import nn

import fedfleet
from fedfleet.core.errors import BadInput
from fedfleet.tasks import task_checks
from fedfleet.tasks.data_checks import checked_data
from fedfleet.tasks.digits import digits_logreg
from fedfleet.tasks.task_checks import check_fit, check_loss, checked_build, needs_two_samples, outputs_of

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 5)), np.arange(60) % 3
SPEC = {"world": {"clients": 4}, "pace": {"cohort": 2}, "stop": {"rounds": 1}}


def with_value(value, row=7):
    spoilt = X.copy()
    spoilt[row, 1] = value
    return spoilt


def part_frozen():
    model = nn.Linear(5, 3)
    model.bias.requires_grad_(False)
    return model


class Net(nn.Module):
    """Nothing in it."""


DATA = {
    "NaN": ((with_value(np.nan), Y), "1 of 60 inputs.*NaN or infinite.*row 7; fill or drop"),
    "infinite": ((with_value(np.inf), Y), "row 7"),
    "beyond float32": ((with_value(1e300), Y), "not finite in float32"),
    "words": ((np.full((60, 5), "a"), Y), "give numbers with one row for each sample"),
    "one number a sample": ((X[:, 0], Y), "one row for each sample"),
    "nothing": ((X[:0], Y[:0]), "one row for each sample"),
    "ragged": (([[1.0], [1.0, 2.0]], [0, 1]), "rows of equal length"),
    "few labels": ((X, Y[:-1]), "60 inputs need as many labels, one each; got 59"),
    "real labels": ((X, Y * 1.0), "float64, not integers; number the classes"),
    "named labels": ((X, Y.astype(str)), "not integers; number the classes"),
    "labels that are missing": (
        (X, np.where(np.arange(60) % 30 == 4, np.nan, Y)),
        "2 of 60 labels are NaN, the first of them in row 4; drop these samples",
    ),
    "one-hot labels": ((X, np.eye(3)[Y]), r"labels.argmax\(1\)"),
    "labels in a column": ((X, Y[:, None]), r"labels.ravel\(\)"),
    "negative label": ((X, Y - 1), "row 0 is -1, out of range"),
    "huge label": ((X, np.where(np.arange(60) == 4, 2**40, Y)), "row 4 is 1099511627776, out of range"),
    "few owners": ((X, Y, [1, 2]), "60 inputs need as many owners"),
    "NaN as owner": ((X, Y, np.where(np.arange(60) == 3, np.nan, 1.0)), "the owner in row 3 is nan"),
    "mixed owners": ((X, Y, np.array(["a", 2] * 30, dtype=object)), "mix names and numbers"),
    "a dictionary": ({"x": X, "y": Y}, "got a dict"),
    "one array": ((X,), "got 1 things"),
    "a file that is not there": ("xy.npz", "cannot read arrays x and y"),
    "bytes": (b"xy", "got a bytes"),
}
MODELS = {
    "a word": ("resnet", "model is 'resnet', a str; give a PyTorch module"),
    "a class": (
        nn.Linear,
        r"the class Linear, which cannot make a model without arguments .*; give an instance, model=Linear\(..\)",
    ),
    "a class of nothing": (Net, "no parameters"),
    "a class of something else": (dict, "gives a dict, not a PyTorch module"),
    "nothing to train": (Net(), "no parameters"),
    "no shape yet": (nn.LazyLinear(3), "'weight' has no shape yet"),
    "double": (nn.Linear(5, 3).double(), r"float64; train in float32, with model.float\(\)"),
    "TorchScript": (torch.jit.script(nn.Linear(5, 3)), "a TorchScript module.*; give the module that it was made from"),
    "frozen": (nn.Linear(5, 3).requires_grad_(False), "'weight' and 1 more are frozen .*a run trains all parameters"),
    "partly frozen": (part_frozen(), "'bias' is frozen .*register_buffer"),
    "no module": (lambda: 3, "gives a int, not a PyTorch module"),
    "fails": (lambda: 1 / 0, "ZeroDivisionError"),
    "wrong width": (nn.Linear(6, 3), r"cannot take inputs of shape \(samples, 5\)"),
    "few outputs": (
        nn.Linear(5, 2),
        "row 2 is 2, and the model has 2 outputs, for labels 0 to 1; give its last layer 3",
    ),
    "two things": (nn.LSTM(5, 3), "gives a tuple"),
    "one number": (nn.Sequential(nn.Linear(5, 1), nn.Flatten(0)), "a row of scores for each sample"),
}


@pytest.mark.parametrize("name", DATA)
def test_mistakes_in_the_data_are_named(name):
    data, says = DATA[name]
    with pytest.raises(BadInput, match=says) as told:
        fedfleet.run(SPEC, model=nn.Linear(5, 3), data=data)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("name", MODELS)
def test_mistakes_in_the_model_are_named(name):
    model, says = MODELS[name]
    with pytest.raises(BadInput, match=says) as told:
        fedfleet.run(SPEC, model=model, data=(X, Y))
    assert "\n" not in str(told.value)


def test_a_model_with_weights_that_are_not_finite_is_refused():
    model = nn.Linear(5, 3)
    with torch.no_grad():
        model.bias[1] = float("nan")
    with pytest.raises(BadInput, match="'bias' holds values that are not finite"):
        check_fit(checked_build(model), checked_data((X, Y)))


def test_tensors_lists_and_names_of_owners_will_do():
    got = checked_data((torch.tensor(X, requires_grad=True), Y.tolist(), ["b", "a"] * 30))
    assert got.x.dtype == np.float32 and got.classes == 3 and got.owner.tolist()[:2] == [1, 0]
    check_fit(checked_build(lambda: nn.Linear(5, 9)), got)


def test_what_needs_two_samples_is_found():
    x = X.astype(np.float32)
    assert needs_two_samples(lambda: nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4)), x)
    assert not needs_two_samples(lambda: nn.Linear(5, 4), x)
    pictures = np.zeros((3, 1, 4, 4), np.float32)
    assert not needs_two_samples(lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)), pictures)


TASK = digits_logreg()(0)


def test_outputs_are_those_of_the_model(monkeypatch):
    params, rows = TASK.init(3), TASK.holdout[:50]
    monkeypatch.setattr(task_checks, "_BATCH", 7)
    module = TASK.build()
    module.load_state_dict({n: torch.from_numpy(v) for n, v in params.items()})
    wanted = module(torch.from_numpy(TASK.dataset.x[rows])).detach().numpy()
    np.testing.assert_allclose(outputs_of(TASK, params, rows), wanted, rtol=1e-5, atol=1e-6)
    assert outputs_of(TASK, params, rows[:0]).shape == (0, 10)


def test_what_a_loss_gives_is_seen_by_trying():
    each = check_loss(lambda o, t: torch.nn.functional.cross_entropy(o, t, reduction="none"), TASK)
    assert not each.joint
    assert check_loss(torch.nn.functional.cross_entropy, TASK).joint
    with pytest.raises(BadInput, match="not a function"):
        check_loss("hinge", TASK)
    with pytest.raises(BadInput, match=r"the class CrossEntropyLoss; give an instance, loss=CrossEntropyLoss\(\)"):
        check_loss(torch.nn.CrossEntropyLoss, TASK)
    with pytest.raises(BadInput, match=r"shape \(3, 10\) for 3 samples; return a tensor with one value per sample"):
        check_loss(lambda o, t: o, TASK)
    with pytest.raises(BadInput, match=r"shape \(3, 1\)"):  # beside weights of shape (3,) it would become (3, 3)
        check_loss(lambda o, t: o[:, :1], TASK)
