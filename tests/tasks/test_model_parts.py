"""Which layer is the head, and which layers normalise."""

from fnmatch import fnmatchcase

import numpy as np
import pytest
import torch
from torch import nn

from fedfleet.core.errors import BadInput
from fedfleet.core.part_facts import default_model_facts
from fedfleet.core.parts import Dataset
from fedfleet.core.registry import builder
from fedfleet.tasks.model_parts import class_features, last_layer, model_facts
from fedfleet.tasks.task import make_task
from tests.testing.models import small_task

X = np.arange(24, dtype=np.float32).reshape(6, 4)
DATA = Dataset(X, np.array([0, 0, 1, 1, 1, 0]), 3)


def task_of(build):
    return make_task("toy", lambda: DATA, build)(0)


def test_a_linear_model_sees_the_samples_themselves():
    task = task_of(lambda: nn.Linear(4, 3))
    result = class_features(task, task.init(0), np.array([0, 1, 2, 3]))
    assert result.tolist() == [X[:2].mean(0).tolist(), X[2:4].mean(0).tolist(), [0.0] * 4]


def test_the_last_hidden_layer_counts():
    task = task_of(lambda: nn.Sequential(nn.Linear(4, 2), nn.ReLU(), nn.Linear(2, 3)))
    params = task.init(1)
    result = class_features(task, params, np.arange(6))
    hidden = np.maximum(X @ params["0.weight"].T + params["0.bias"], 0.0)
    for label in (0, 1):
        np.testing.assert_allclose(result[label], hidden[DATA.y == label].mean(0), rtol=1e-5)


def test_a_model_without_a_linear_layer_is_refused():
    task = task_of(lambda: nn.Conv1d(1, 1, 1))
    with pytest.raises(BadInput, match=r"toy: .* this model has no linear layer"):
        class_features(task, task.init(0), np.arange(6))


class HeadFirst(nn.Module):
    """Defined in another order than it is called in, with a layer that is never called and a parameter of its own."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.out = nn.Linear(4, 5)
        self.norm = nn.LayerNorm(4)
        self.body = nn.Linear(36, 4)
        self.spare = nn.Linear(4, 4)

    def forward(self, x):
        return self.out(self.norm(self.body(x.flatten(1)))) * self.scale


def facts_of(build):
    return model_facts(small_task(build))


def test_the_head_is_called_last_wherever_it_is_defined():
    result = facts_of(HeadFirst)
    assert (result.head, result.norms) == ("out.*", ("norm.*",))


def test_of_a_model_that_cannot_be_tried_the_last_layer_counts():
    assert last_layer(HeadFirst(), torch.zeros(2, 3)) == "spare"


def test_looking_leaves_the_model_as_it_was():
    module = HeadFirst().train()
    last_layer(module, torch.zeros(2, 1, 6, 6))
    assert module.training and not module.out._forward_pre_hooks


def test_a_single_layer_is_its_own_head():
    assert facts_of(lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 5))).head == "1.*"
    assert last_layer(nn.Linear(3, 2), torch.zeros(1, 3)) == ""


def test_odd_names_are_no_patterns():
    head = nn.Sequential()
    head.add_module("[a]*", nn.Linear(36, 5))
    result = facts_of(lambda: nn.Sequential(nn.Flatten(), head))
    assert fnmatchcase("1.[a]*.weight", result.head)
    assert not fnmatchcase("1.ab.weight", result.head)


def test_a_model_without_layers_has_no_head():
    with pytest.raises(BadInput, match="no head"):
        last_layer(nn.Flatten(), torch.zeros(1, 1))


@pytest.mark.parametrize("name", ["batch", "group"])
def test_the_norms_of_digits(name):
    task = builder("tasks", "digits_cnn")(norm=name)(0)
    result = model_facts(task)
    assert (result.head, result.norms) == ("head.*", ("norm1.*", "norm2.*"))
    names = list(task.init(0))
    assert {n for n in names if any(fnmatchcase(n, p) for p in result.norms)} == {n for n in names if "norm" in n}


@pytest.mark.parametrize("name", ["digits_cnn", "femnist_cnn", "resnet18_gn", "vit_tiny", "char_lstm", "har_cnn", "kws_cnn"])
def test_our_own_models_call_their_layers_by_the_names_that_are_taken_without_a_model(name):
    make = builder("tasks", name)
    task = make()(0) if name == "digits_cnn" else make(synthetic=True, samples=300)(0)
    result, alone = model_facts(task), default_model_facts()
    assert result.head == alone.head
    norms = {n for n in task.init(0) if any(fnmatchcase(n, p) for p in result.norms)}
    assert norms >= {n for n in task.init(0) if any(fnmatchcase(n, p) for p in alone.norms)}
    assert np.all([not fnmatchcase(n, alone.head) for n in norms])
