"""Tasks on photographs and X-rays, and the usual backbones on such pictures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Count, Depth, Side, Width
from fedfleet.core.parts import Dataset
from fedfleet.tasks.data_files import Source, arrays, data_from, number_names, pixels
from fedfleet.tasks.narrow_models import units
from fedfleet.tasks.readers import folders, leaf
from fedfleet.tasks.readers.binary_images import read_cifar
from fedfleet.tasks.small_images import CHARS74K, SHAPE
from fedfleet.tasks.synthetic import synthetic_data
from fedfleet.tasks.task import TaskRecipe, fit_task

CIFAR_SHAPE = (3, 32, 32)
PATCHES_ACROSS = 8  # of a transformer for pictures of any size: 64 patches, as with CIFAR-10
CIFAR = Source(
    "CIFAR-10 (binary version)",
    tuple(f"{d}/data_batch_1.bin" for d in ("cifar10", "cifar-10-batches-bin", "cifar10/cifar-10-batches-bin")),
    read_cifar,
)
CELEBA = Source("LEAF's CelebA", leaf.places("celeba"), leaf.read_celeba)


def cifar_cnn(*, samples: Count | None = None, synthetic: bool = False) -> TaskRecipe:
    """pfl-research's benchmark model (1,626,442 parameters) on CIFAR-10."""

    def net(shape: tuple[int, ...], classes: int, scale: float = 1.0) -> Any:
        from fedfleet.tasks.nets.small import CifarCnn

        return CifarCnn(shape, classes, scale=scale)

    load = data_from((CIFAR,), synthetic_data("cifar", CIFAR_SHAPE, 10), samples=samples, synthetic=synthetic)
    return fit_task("cifar_cnn", load, net)


def resnet18_gn(*, samples: Count | None = None, synthetic: bool = False) -> TaskRecipe:
    """ResNet-18 with group normalisation (11,173,962 parameters) on CIFAR-10."""

    def net(shape: tuple[int, ...], classes: int, scale: float = 1.0) -> Any:
        from fedfleet.tasks.nets.residual import ResNet18

        return ResNet18(shape[0], classes, scale=scale)

    load = data_from((CIFAR,), synthetic_data("cifar", CIFAR_SHAPE, 10), samples=samples, synthetic=synthetic)
    return fit_task("resnet18_gn", load, net)


def vit_tiny(
    *, width: Width = 192, depth: Depth = 6, heads: Width = 3, backbone: str = "",
    samples: Count | None = None, synthetic: bool = False,
) -> TaskRecipe:  # fmt: skip
    """A small vision transformer on CIFAR-10: 64 patches of 4x4, a class token, six layers of width 192, three heads."""
    load = data_from((CIFAR,), synthetic_data("cifar", CIFAR_SHAPE, 10), samples=samples, synthetic=synthetic)
    return fit_task("vit_tiny", load, partial(transformer, width=width, depth=depth, heads=heads), backbone=backbone)


def celeba_cnn(*, hidden: Width = 256, samples: Count | None = None, synthetic: bool = False) -> TaskRecipe:
    """FS-REAL's CelebA model, 32-64-256-2 (7,279,810 parameters): smiling or not, by celebrity, 84x84.

    Two 5x5 convolutions as for FEMNIST, not LEAF's four: FS-REAL's appendix gives these widths.
    """

    def net(shape: tuple[int, ...], classes: int, scale: float = 1.0) -> Any:
        from fedfleet.tasks.nets.small import TwoConvNet

        return TwoConvNet(shape, hidden, classes, scale=scale)

    shape = (3, leaf.CELEBA_SIDE, leaf.CELEBA_SIDE)
    load = data_from((CELEBA,), synthetic_data("celeba", shape, 2), samples=samples, synthetic=synthetic)
    return fit_task("celeba_cnn", load, net)


def openimage_vit(*, side: Side = 32, backbone: str = "", samples: Count | None = None, synthetic: bool = False) -> TaskRecipe:
    """A small vision transformer on FedScale's OpenImage, by author, pictures squeezed to side x side.

    Read from client_data_mapping/train.csv, from clients.csv (client,path,label) or from folders client/label/picture.
    """
    check_side(side)
    source = Source("OpenImage", folders.places("openimage"), partial(folders.read_folder, side=side, channels=3))
    load = data_from((source,), synthetic_data("openimage", (3, side, side), 596), samples=samples, synthetic=synthetic)
    return fit_task("openimage_vit", load, transformer, backbone=backbone)


def transformer(
    shape: tuple[int, ...], classes: int, *, width: int = 192, depth: int = 6, heads: int = 3, scale: float = 1.0
) -> Any:
    """A small vision transformer with eight patches across; a narrower one has as many heads, each of them narrower."""
    from fedfleet.tasks.nets.attention import Vit

    if width % heads:
        raise BadInput(f"task.width = {width} cannot be shared among {heads} heads; use a multiple of task.heads")
    wide = units(width, scale, heads)
    return Vit(shape, classes, patch=shape[1] // PATCHES_ACROSS, width=wide, depth=depth, heads=heads)


def check_side(side: int) -> None:
    """Pictures are cut into eight patches across."""
    if side % PATCHES_ACROSS:
        raise BadInput(f"task.side = {side} cannot be cut into {PATCHES_ACROSS} patches; use a multiple of {PATCHES_ACROSS}")


def _read_covid(path: Path, samples: int | None) -> Dataset:
    del samples
    x, y, patient = arrays(path, "x", "y", "patient")
    return Dataset(pixels(x)[:, None], y.astype(np.int64), 3, number_names(patient))


def _read_pneumonia(path: Path, samples: int | None) -> Dataset:
    """MedMNIST's three parts, one after the other; the patients are unknown."""
    del samples
    parts = ("train", "val", "test")
    x = np.concatenate(arrays(path, *(f"{p}_images" for p in parts)))
    y = np.concatenate(arrays(path, *(f"{p}_labels" for p in parts)))
    return Dataset(pixels(x)[:, None], y.reshape(-1).astype(np.int64), 2)


COVID = Source("covid-chestxray-dataset", ("covid_cxr/xray64.npz",), _read_covid)
PNEUMONIA = Source("PneumoniaMNIST", ("pneumonia/pneumoniamnist.npz",), _read_pneumonia)


def _three_convolutions(shape: tuple[int, ...], classes: int, scale: float = 1.0) -> Any:
    from fedfleet.tasks.nets.small import PoolingCnn

    return PoolingCnn(shape, (16, 32, 64), 64, classes, scale=scale)


def covid_cnn(*, samples: Count | None = None, synthetic: bool = False) -> TaskRecipe:
    """Three convolutions on chest X-rays of 64x64: covid, other pneumonia or neither; owner = patient."""
    load = data_from((COVID,), synthetic_data("covid", (1, 64, 64), 3), samples=samples, synthetic=synthetic)
    return fit_task("covid_cnn", load, _three_convolutions)


def pneumonia_cnn(*, samples: Count | None = None, synthetic: bool = False) -> TaskRecipe:
    """Three convolutions on children's chest X-rays of 28x28: pneumonia or not; owners are not known."""
    load = data_from((PNEUMONIA,), synthetic_data("pneumonia", (1, 28, 28), 2), samples=samples, synthetic=synthetic)
    return fit_task("pneumonia_cnn", load, _three_convolutions)


def covidfl_vit(*, side: Side = 32, backbone: str = "", samples: Count | None = None, synthetic: bool = False) -> TaskRecipe:
    """A small vision transformer on COVID-FL's X-rays of twelve hospitals, squeezed to side x side.

    Read from labels.csv with one list per hospital, from clients.csv (client,path,label) or from folders
    client/label/picture.
    """
    check_side(side)
    source = Source("COVID-FL", folders.places("covid-fl"), partial(folders.read_folder, side=side, channels=3))
    load = data_from((source,), synthetic_data("covidfl", (3, side, side), 3, 12), samples=samples, synthetic=synthetic)
    return fit_task("covidfl_vit", load, transformer, backbone=backbone)


# ---- pretrained weights meet other data than they were made for ---------------------------------------------------

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
