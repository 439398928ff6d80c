"""EfficientNet-Lite0: inverted bottlenecks for phones, without squeeze-and-excitation and with clipped rectified units."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import pad, relu6

# kernel, stride, widening, outputs, how often; Tan and Le 2019, the "lite" variant of B0.
STAGES = (
    (3, 1, 1, 16, 1), (3, 2, 6, 24, 2), (5, 2, 6, 40, 2), (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3), (5, 2, 6, 192, 4), (3, 1, 6, 320, 1),
)  # fmt: skip
NORM_EPS, NORM_MOMENTUM = 1e-3, 0.01


class SameConv(nn.Module):
    """A convolution without bias, padded as TensorFlow pads: on the right and below by one more where that is odd."""

    def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, size, stride=stride, groups=groups, bias=False)
        self.size, self.stride = size, stride

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        padding = [max((-(-n // self.stride) - 1) * self.stride + self.size - n, 0) for n in (x.shape[3], x.shape[2])]
        sides = [side for n in padding for side in (n // 2, n - n // 2)]
        return self.conv(pad(x, sides) if any(sides) else x)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=NORM_EPS, momentum=NORM_MOMENTUM)


class InvertedBottleneck(nn.Module):
    """Widen by a 1x1 convolution, look around in each channel alone, narrow again; a shortcut where the shape stays."""

    def __init__(self, inputs: int, outputs: int, *, size: int, stride: int, widening: int) -> None:
        super().__init__()
        width = widening * inputs
        self.wide: nn.Module = nn.Identity()
        if widening != 1:
            self.wide = nn.Sequential(SameConv(inputs, width, 1), _norm(width), nn.ReLU6())
        self.depthwise, self.norm1 = SameConv(width, width, size, stride, groups=width), _norm(width)
        self.narrow, self.norm2 = SameConv(width, outputs, 1), _norm(outputs)
        self.skips = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = relu6(self.norm1(self.depthwise(self.wide(x))))
        y = self.norm2(self.narrow(y))
        return x + y if self.skips else y


class EfficientNetLite0(nn.Module):
    """Sixteen inverted bottlenecks between a stem and a 1x1 convolution of 1,280 channels."""

    def __init__(self, classes: int, fit: nn.Module | None = None) -> None:
        super().__init__()
        self.fit = fit or nn.Identity()  # brings samples into the shape that it takes
        self.stem, self.norm0 = SameConv(3, 32, 3, 2), _norm(32)
        blocks: list[nn.Module] = []
        inputs = 32
        for size, stride, widening, outputs, count in STAGES:
            for j in range(count):
                settings = {"size": size, "stride": 1 if j else stride, "widening": widening}
                blocks.append(InvertedBottleneck(inputs, outputs, **settings))
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.last, self.norm1 = SameConv(inputs, 1280, 1), _norm(1280)
        self.head = nn.Linear(1280, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks(relu6(self.norm0(self.stem(self.fit(x)))))
        return self.head(relu6(self.norm1(self.last(x))).mean((2, 3)))
