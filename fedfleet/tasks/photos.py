"""Tasks on colour photographs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Count, Depth, Side, Width
from fedfleet.core.parts import Dataset
from fedfleet.tasks.data_files import Source, arrays, data_from, number_names, pixels
from fedfleet.tasks.narrow_models import units
from fedfleet.tasks.readers import folders, leaf
from fedfleet.tasks.readers.binary_images import read_cifar
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
