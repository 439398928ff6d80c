"""Networks of linear layers alone."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn


def logistic_regression(inputs: int, classes: int) -> nn.Module:
    """One linear layer on the flattened input."""
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, classes))


def perceptron(inputs: int, hidden: Sequence[int], classes: int) -> nn.Module:
    """Hidden layers of rectified units on the flattened input."""
    layers: list[nn.Module] = [nn.Flatten()]
    for width in hidden:
        layers += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, classes))
