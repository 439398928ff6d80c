"""ResNet-18 with group normalisation for images of 32x32 or so; and the ResNets that public weights are for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn.functional import max_pool2d

from fedfleet.tasks.narrow_models import units

# Two groups, as in "Adaptive Federated Optimization" (Reddi et al.); clients' batches are too unlike for batch norm.
GROUPS = 2
Norm = Callable[[int], nn.Module]  # by the number of channels


def group_norm(channels: int) -> nn.Module:
    """The normalisation of the ResNet for small images."""
    return nn.GroupNorm(GROUPS, channels)


def _conv(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=False)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut, normalised by batch or as `norm` says: the block of ResNet-18."""

    widens = 1

    def __init__(self, inputs: int, width: int, stride: int, norm: Norm = nn.BatchNorm2d) -> None:
        super().__init__()
        self.conv1, self.norm1 = _conv(inputs, width, 3, stride), norm(width)
        self.conv2, self.norm2 = _conv(width, width, 3), norm(width)
        self.shortcut = _shortcut(inputs, width, stride, norm)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet18(nn.Module):
    """The ResNet-18 of small images: a 3x3 stem without pooling, four stages of two blocks, mean over the places."""

    def __init__(self, channels: int, classes: int, *, scale: float = 1.0) -> None:
        super().__init__()
        inputs = units(64, scale, GROUPS)
        self.stem, self.norm = _conv(channels, inputs, 3), group_norm(inputs)
        blocks: list[BasicBlock] = []
        for whole, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            outputs = units(whole, scale, GROUPS)
            blocks += [BasicBlock(inputs, outputs, stride, group_norm), BasicBlock(outputs, outputs, 1, group_norm)]
            inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks(torch.relu(self.norm(self.stem(x))))
        return self.head(x.mean((2, 3)))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions around a shortcut, normalised by batch: the block of ResNet-50."""

    widens = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = self.widens * width
        self.conv1, self.norm1 = _conv(inputs, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = _conv(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.norm3 = _conv(width, outputs, 1), nn.BatchNorm2d(outputs)
        self.shortcut = _shortcut(inputs, outputs, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm1(self.conv1(x)))
        y = torch.relu(self.norm2(self.conv2(y)))
        return torch.relu(self.norm3(self.conv3(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """He et al. 2016 as ImageNet knows it: a 7x7 stem with pooling, four stages, batch normalisation."""

    def __init__(
        self, block: type[BasicBlock] | type[Bottleneck], counts: Sequence[int], classes: int, fit: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.fit = fit or nn.Identity()
        self.stem, self.norm = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(64)
        stages: list[nn.Module] = []
        inputs = 64
        for i, (width, count) in enumerate(zip((64, 128, 256, 512), counts, strict=True)):
            blocks: list[nn.Module] = []
            for j in range(count):
                blocks.append(block(inputs, width, 2 if i and not j else 1))
                inputs = block.widens * width
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = max_pool2d(torch.relu(self.norm(self.stem(self.fit(x)))), 3, 2, 1)
        return self.head(self.stages(x).mean((2, 3)))


def resnet18(classes: int, fit: nn.Module | None = None) -> ResNet:
    """ResNet-18; `fit` brings samples into the shape that it takes."""
    return ResNet(BasicBlock, (2, 2, 2, 2), classes, fit)


def resnet50(classes: int, fit: nn.Module | None = None) -> ResNet:
    """ResNet-50; `fit` brings samples into the shape that it takes."""
    return ResNet(Bottleneck, (3, 4, 6, 3), classes, fit)


def _shortcut(inputs: int, outputs: int, stride: int, norm: Norm = nn.BatchNorm2d) -> nn.Module:
    """What brings a shortcut into the shape of its block: a 1x1 convolution where that changes."""
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(_conv(inputs, outputs, 1, stride), norm(outputs))
