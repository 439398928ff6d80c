"""What a model makes of each class: means of what enters its last linear layer."""

import numpy as np
import pytest
from torch import nn

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Dataset
from fedfleet.tasks.class_features import class_features
from fedfleet.tasks.task import make_task

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
