"""The usual backbones on pictures at hand: pretrained weights meet other data than they were made for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Count, Side
from fedfleet.tasks.data_files import Source, data_from
from fedfleet.tasks.photos import CIFAR, CIFAR_SHAPE, COVID, PNEUMONIA
from fedfleet.tasks.small_images import CHARS74K, SHAPE
from fedfleet.tasks.synthetic import synthetic_data
from fedfleet.tasks.task import TaskRecipe, fit_task

Pictures = Literal["covid", "pneumonia", "chars74k", "cifar"]
Backbone = Literal["resnet18", "resnet50", "vit_b16", "efficientnet_lite0"]
_PICTURES: dict[str, tuple[Source, tuple[int, ...], int]] = {
    "covid": (COVID, (1, 64, 64), 3),
    "pneumonia": (PNEUMONIA, SHAPE, 2),
    "chars74k": (CHARS74K, SHAPE, 62),
    "cifar": (CIFAR, CIFAR_SHAPE, 10),
}
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # what torchvision's weights were trained with
_LITE = ((127 / 255,) * 3, (128 / 255,) * 3)  # and the weights of the EfficientNets of phones
_PATCH = 16


def transfer(
    *,
    net: Backbone = "resnet18",
    pictures: Pictures = "covid",
    side: Side = 64,
    backbone: str = "",
    samples: Count | None = None,
    synthetic: bool = False,
) -> TaskRecipe:
    """A usual backbone on other pictures: ResNet-18, ResNet-50, ViT-B/16 or EfficientNet-Lite0, stretched to side x side.

    `backbone` is a file of weights with the names of torchvision, timm or ourselves, or "efficientnet_lite0" for what
    fedfleet[backbones] brings; "": none. The head is always fresh where the classes differ.
    """
    if net == "vit_b16" and side % _PATCH:
        raise BadInput(f"task.side = {side} cannot be cut into patches of {_PATCH}; use a multiple of {_PATCH}")
    source, shape, classes = _PICTURES[pictures]
    load = data_from((source,), synthetic_data(pictures, shape, classes), samples=samples, synthetic=synthetic)
    return fit_task("transfer", load, lambda shape, classes: _build(net, shape, side, classes), backbone=backbone)


def _build(net: Backbone, shape: tuple[int, ...], side: int, classes: int) -> Any:
    from fedfleet.tasks.nets import attention, mobile, residual
    from fedfleet.tasks.nets.input_resize import InputResize

    makers: dict[str, Callable[[Any], Any]] = {
        "resnet18": lambda fit: residual.resnet18(classes, fit),
        "resnet50": lambda fit: residual.resnet50(classes, fit),
        "vit_b16": lambda fit: attention.vit_b16(side, classes, fit),
        "efficientnet_lite0": lambda fit: mobile.EfficientNetLite0(classes, fit),
    }
    mean, spread = _LITE if net == "efficientnet_lite0" else _IMAGENET
    return makers[net](InputResize(shape, side, mean, spread))
