"""Small networks: linear layers alone, convolutions on pictures, and networks for sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn
from torch.nn.functional import max_pool1d, max_pool2d

from fedfleet.tasks.dropout import AddressedDropout
from fedfleet.tasks.narrow_models import units


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


NormName = Literal["none", "batch", "group"]


class SmallCnn(nn.Module):
    """Two 3x3 convolutions with pooling in between, then a linear layer: enough for 8x8 digits.

    Each convolution may be normalised: over the batch, or over all channels of a sample as one group.
    """

    def __init__(self, side: int, channels: int, classes: int, norm: NormName = "none") -> None:
        super().__init__()
        self.first = nn.Conv2d(1, channels, 3, padding=1)
        self.norm1 = _norm(norm, channels)
        self.second = nn.Conv2d(channels, 2 * channels, 3, padding=1)
        self.norm2 = _norm(norm, 2 * channels)
        self.head = nn.Linear(2 * channels * (side // 2) ** 2, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm1(self.first(x)))
        x = max_pool2d(x, 2)
        x = torch.relu(self.norm2(self.second(x)))
        return self.head(x.flatten(1))


def _norm(name: NormName, channels: int) -> nn.Module:
    match name:
        case "none":
            return nn.Identity()
        case "batch":
            return nn.BatchNorm2d(channels)
        case "group":
            return nn.GroupNorm(1, channels)


class TwoConvNet(nn.Module):
    """FederatedScope's ConvNet2 without batch normalisation: two 5x5 convolutions of 32 and 64, a hidden layer, a head.

    Padding 2 keeps the size, each pooling halves it: 28x28 leaves 7 x 7 x 64 = 3,136 inputs to the hidden layer. With 1024
    hidden units and 62 classes that is 832 + 51,264 + 3,212,288 + 63,550 = 3,327,934 parameters, FS-REAL's FEMNIST model;
    with 512 and 10 it is the MNIST model of the FedAvg paper (1,663,370).
    """

    def __init__(self, shape: Sequence[int], hidden: int, classes: int, *, scale: float = 1.0) -> None:
        super().__init__()
        channels, height, width = shape
        first, second, hidden = (units(n, scale) for n in (32, 64, hidden))
        self.conv1 = nn.Conv2d(channels, first, 5, padding=2)
        self.conv2 = nn.Conv2d(first, second, 5, padding=2)
        self.hidden = nn.Linear(second * (height // 4) * (width // 4), hidden)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = max_pool2d(torch.relu(self.conv1(x)), 2)
        x = max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.head(torch.relu(self.hidden(x.flatten(1))))


class CifarCnn(nn.Module):
    """The CIFAR-10 model of pfl-research's benchmarks: two 3x3 convolutions without padding, one pooling, two dropouts.

    32x32 -> 30x30x32 -> 28x28x64 -> 14x14x64 -> 128 -> classes. Weights start Glorot-uniform, as there.
    """

    def __init__(self, shape: Sequence[int], classes: int, *, scale: float = 1.0) -> None:
        super().__init__()
        channels, height, width = shape
        first, second, hidden = (units(n, scale) for n in (32, 64, 128))
        self.conv1 = nn.Conv2d(channels, first, 3)
        self.conv2 = nn.Conv2d(first, second, 3)
        self.drop1 = AddressedDropout(0.25, 0)
        self.hidden = nn.Linear(second * ((height - 4) // 2) * ((width - 4) // 2), hidden)
        self.drop2 = AddressedDropout(0.5, 1)
        self.head = nn.Linear(hidden, classes)
        for layer in (self.conv1, self.conv2, self.hidden, self.head):
            nn.init.xavier_uniform_(layer.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.conv2(torch.relu(self.conv1(x))))
        x = self.drop1(max_pool2d(x, 2))
        x = self.drop2(torch.relu(self.hidden(x.flatten(1))))
        return self.head(x)


class PoolingCnn(nn.Module):
    """3x3 convolutions, each rectified and halved by pooling, then a hidden layer: for spectrograms, X-rays, drawings."""

    def __init__(self, shape: Sequence[int], widths: Sequence[int], hidden: int, classes: int, *, scale: float = 1.0) -> None:
        super().__init__()
        channels, height, width = shape
        widths, hidden = [units(n, scale) for n in widths], units(hidden, scale)
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in zip((channels, *widths), widths, strict=False))
        shrink = 2 ** len(widths)
        self.hidden = nn.Linear(widths[-1] * (height // shrink) * (width // shrink), hidden)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for conv in self.convs:
            x = max_pool2d(torch.relu(conv(x)), 2)
        return self.head(torch.relu(self.hidden(x.flatten(1))))


EMBEDDING = 8  # LEAF's


class CharLstm(nn.Module):
    """LEAF's next-character model: an 8-dimensional embedding, two LSTM layers of 256, a head on the last hidden state.

    With `every_place` the head scores what comes next at every place.
    """

    def __init__(
        self, vocabulary: int, *, embedding: int = EMBEDDING, hidden: int = 256, layers: int = 2, every_place: bool = False
    ) -> None:
        super().__init__()
        self.every_place = every_place
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, hidden, num_layers=layers, batch_first=True)
        self.head = nn.Linear(hidden, vocabulary)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, _ = self.lstm(self.embedding(x))
        return self.head(out if self.every_place else out[:, -1])


class WindowCnn(nn.Module):
    """Two convolutions along time with pooling, a hidden layer, a head: for windows [channels, time]."""

    def __init__(self, shape: Sequence[int], hidden: int, classes: int, *, scale: float = 1.0) -> None:
        super().__init__()
        channels, time = shape
        first, second, hidden = (units(n, scale) for n in (32, 64, hidden))
        self.conv1 = nn.Conv1d(channels, first, 9, padding=4)
        self.conv2 = nn.Conv1d(first, second, 9, padding=4)
        self.hidden = nn.Linear(second * (time // 4), hidden)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = max_pool1d(torch.relu(self.conv1(x)), 2)
        x = max_pool1d(torch.relu(self.conv2(x)), 2)
        return self.head(torch.relu(self.hidden(x.flatten(1))))
