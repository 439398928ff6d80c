"""The embedded task: 1,797 real handwritten digits, 8x8 pixels, inside scikit-learn."""

from __future__ import annotations

from functools import cache

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Width
from fedfleet.core.parts import Dataset
from fedfleet.tasks.task import TaskRecipe, make_task


@cache
def digits() -> Dataset:
    """The digits as float32 images in [0, 1], one channel."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise BadInput("the digits lie inside scikit-learn, which is not installed; install fedfleet[train]") from None
    x, y = load_digits(return_X_y=True)
    return Dataset((x / 16.0).astype(np.float32).reshape(-1, 1, 8, 8), y.astype(np.int64), classes=10)


def digits_logreg() -> TaskRecipe:
    """Logistic regression on handwritten digits (650 parameters)."""

    def build():
        from fedfleet.tasks.nets.dense import logistic_regression

        return logistic_regression(64, 10)

    return make_task("digits_logreg", digits, build)


def digits_mlp(hidden: Width = 64) -> TaskRecipe:
    """A perceptron with one hidden layer on handwritten digits."""

    def build():
        from fedfleet.tasks.nets.dense import perceptron

        return perceptron(64, [hidden], 10)

    return make_task("digits_mlp", digits, build)


def digits_cnn(channels: Width = 8) -> TaskRecipe:
    """A small convolutional network on handwritten digits."""

    def build():
        from fedfleet.tasks.nets.vision import SmallCnn

        return SmallCnn(8, channels, 10)

    return make_task("digits_cnn", digits, build)
