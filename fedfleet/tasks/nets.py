"""The torch modules of the tasks. Imported only when a model is built."""

from __future__ import annotations

import torch
from torch import nn


def logistic_regression(inputs: int, classes: int) -> nn.Module:
    """One linear layer on the flattened input."""
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, classes))


def perceptron(inputs: int, hidden: int, classes: int) -> nn.Module:
    """One hidden layer of rectified units."""
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, classes))


class SmallCnn(nn.Module):
    """Two 3x3 convolutions with pooling in between, then a linear layer: enough for 8x8 digits."""

    def __init__(self, side: int, channels: int, classes: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, 2 * channels, 3, padding=1)
        self.head = nn.Linear(2 * channels * (side // 2) ** 2, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        x = nn.functional.max_pool2d(x, 2)
        x = torch.relu(self.second(x))
        return self.head(x.flatten(1))
