"""ResNet-18 with group normalisation, for images of 32x32 or so."""

from __future__ import annotations

import torch
from torch import nn

from fedfleet.tasks.narrowing import units

# Two groups, as in "Adaptive Federated Optimization" (Reddi et al.); clients' batches are too unlike for batch norm.
GROUPS = 2


def _conv(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=False)


class Block(nn.Module):
    """Two 3x3 convolutions around a shortcut; a 1x1 convolution fits the shortcut where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = _conv(inputs, outputs, 3, stride), nn.GroupNorm(GROUPS, outputs)
        self.conv2, self.norm2 = _conv(outputs, outputs, 3), nn.GroupNorm(GROUPS, outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(_conv(inputs, outputs, 1, stride), nn.GroupNorm(GROUPS, outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet18(nn.Module):
    """The ResNet-18 of small images: a 3x3 stem without pooling, four stages of two blocks, mean over the places."""

    def __init__(self, channels: int, classes: int, *, scale: float = 1.0) -> None:
        super().__init__()
        inputs = units(64, scale, GROUPS)
        self.stem, self.norm = _conv(channels, inputs, 3), nn.GroupNorm(GROUPS, inputs)
        blocks: list[Block] = []
        for whole, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            outputs = units(whole, scale, GROUPS)
            blocks += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
            inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks(torch.relu(self.norm(self.stem(x))))
        return self.head(x.mean((2, 3)))
