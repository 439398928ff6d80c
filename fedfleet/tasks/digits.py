"""The embedded task: 1,797 real handwritten digits, 8x8 pixels, which ship with scikit-learn."""

from __future__ import annotations

import gzip
import importlib.util
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.kinds import MULTILABEL
from fedfleet.core.limits import Depth, Width
from fedfleet.core.parts import Dataset
from fedfleet.tasks.narrow_models import units
from fedfleet.tasks.small_images import transformer
from fedfleet.tasks.task import TaskRecipe, fit_task


@cache
def digits() -> Dataset:
    """The digits as float32 images in [0, 1], one channel."""
    # The file is read where it lies: importing scikit-learn for it takes a second.
    spec = importlib.util.find_spec("sklearn")
    places = [Path(at) / "datasets/data/digits.csv.gz" for at in (spec.submodule_search_locations or ())] if spec else []
    path = next((p for p in places if p.is_file()), None)
    if path is None:
        raise BadInput("the digits dataset ships with scikit-learn, which is not installed; install fedfleet[train]")
    rows = np.array([line.split(b",") for line in gzip.decompress(path.read_bytes()).split()], np.float64)
    return Dataset((rows[:, :64] / 16.0).astype(np.float32).reshape(-1, 1, 8, 8), rows[:, 64].astype(np.int64), classes=10)


def digits_logreg() -> TaskRecipe:
    """Logistic regression on handwritten digits (650 parameters)."""

    def net(shape: tuple[int, ...], classes: int, scale: float = 1.0) -> Any:
        from fedfleet.tasks.nets.small import logistic_regression

        del shape, scale  # it has no hidden units
        return logistic_regression(64, classes)

    return fit_task("digits_logreg", digits, net)


def digits_mlp(hidden: Width = 64) -> TaskRecipe:
    """A perceptron with one hidden layer on handwritten digits."""

    def net(shape: tuple[int, ...], classes: int, scale: float = 1.0) -> Any:
        from fedfleet.tasks.nets.small import perceptron

        del shape
        return perceptron(64, [units(hidden, scale)], classes)

    return fit_task("digits_mlp", digits, net)


def digits_cnn(channels: Width = 8, norm: Literal["none", "batch", "group"] = "none") -> TaskRecipe:
    """A small convolutional network on handwritten digits, with normalisation after its convolutions if `norm` names one."""

    def net(shape: tuple[int, ...], classes: int, scale: float = 1.0) -> Any:
        from fedfleet.tasks.nets.small import SmallCnn

        del shape
        return SmallCnn(8, units(channels, scale), classes, norm)

    return fit_task("digits_cnn", digits, net)


# What holds of which digits, label by label.
TRAITS = {"even": (0, 2, 4, 6, 8), "above four": (5, 6, 7, 8, 9), "prime": (2, 3, 5, 7), "has a loop": (0, 6, 8, 9)}


@cache
def traits() -> Dataset:
    """The digits with four labels at once, which hold of some digits and not of others."""
    data = digits()
    labels = np.stack([np.isin(data.y, members) for members in TRAITS.values()], 1)
    return Dataset(data.x, labels, len(TRAITS), kind=MULTILABEL, label_names=tuple(TRAITS))


def digits_traits(hidden: Width = 64) -> TaskRecipe:
    """Several labels at once: whether a handwritten digit is even, above four, prime, and drawn with a loop."""

    def net(shape: tuple[int, ...], classes: int, scale: float = 1.0) -> Any:
        from fedfleet.tasks.nets.small import perceptron

        del shape
        return perceptron(64, [units(hidden, scale)], classes)

    return fit_task("digits_traits", traits, net)


def digits_vit(*, width: Width = 64, depth: Depth = 3, heads: Width = 4, backbone: str = "builtin") -> TaskRecipe:
    """A tiny vision transformer on handwritten digits, pretrained on generated strokes: 16 patches of 2x2, three layers.

    `backbone` is "builtin" (the weights that come with FedFleet), a file of `fedfleet pretrain`, or "" for none.
    """
    net = transformer(patch=2, width=width, depth=depth, heads=heads)
    return fit_task("digits_vit", digits, net, backbone=backbone)
