"""Tasks on chest X-rays."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core.limits import Count, Side
from fedfleet.core.parts import Dataset
from fedfleet.tasks.data_files import Source, arrays, data_from, number_names, pixels
from fedfleet.tasks.photos import check_side, transformer
from fedfleet.tasks.readers import folders
from fedfleet.tasks.synthetic import synthetic_data
from fedfleet.tasks.task import TaskRecipe, fit_task


def _read_covid(path: Path, samples: int | None) -> Dataset:
    del samples
    x, y, patient = arrays(path, "x", "y", "patient")
    return Dataset(pixels(x)[:, None], y.astype(np.int64), 3, number_names(patient))


def _read_pneumonia(path: Path, samples: int | None) -> Dataset:
    """MedMNIST's three parts, one after the other; nobody knows whose lungs they show."""
    del samples
    parts = ("train", "val", "test")
    x = np.concatenate(arrays(path, *(f"{p}_images" for p in parts)))
    y = np.concatenate(arrays(path, *(f"{p}_labels" for p in parts)))
    return Dataset(pixels(x)[:, None], y.reshape(-1).astype(np.int64), 2)


COVID = Source("covid-chestxray-dataset", ("covid_cxr/xray64.npz",), _read_covid)
PNEUMONIA = Source("PneumoniaMNIST", ("pneumonia/pneumoniamnist.npz",), _read_pneumonia)


def _three_convolutions(shape: tuple[int, ...], classes: int, scale: float = 1.0) -> Any:
    from fedfleet.tasks.nets.vision import PoolingCnn

    return PoolingCnn(shape, (16, 32, 64), 64, classes, scale=scale)


def covid_cnn(*, samples: Count | None = None, synthetic: bool = False) -> TaskRecipe:
    """Three convolutions on chest X-rays of 64x64: covid, other pneumonia or neither; owner = patient."""
    load = data_from((COVID,), synthetic_data("covid", (1, 64, 64), 3), samples=samples, synthetic=synthetic)
    return fit_task("covid_cnn", load, _three_convolutions)


def pneumonia_cnn(*, samples: Count | None = None, synthetic: bool = False) -> TaskRecipe:
    """Three convolutions on children's chest X-rays of 28x28: pneumonia or not; owners are not known."""
    load = data_from((PNEUMONIA,), synthetic_data("pneumonia", (1, 28, 28), 2), samples=samples, synthetic=synthetic)
    return fit_task("pneumonia_cnn", load, _three_convolutions)


def covidfl_vit(
    *, side: Side = 32, backbone: str = "", samples: Count | None = None, synthetic: bool = False
) -> TaskRecipe:
    """A small vision transformer on COVID-FL's X-rays of twelve hospitals, squeezed to side x side.

    Read from labels.csv with one list per hospital, from clients.csv (client,path,label) or from folders
    client/label/picture.
    """
    check_side(side)
    source = Source("COVID-FL", folders.places("covid-fl"), partial(folders.read_folder, side=side, channels=3))
    load = data_from((source,), synthetic_data("covidfl", (3, side, side), 3, 12), samples=samples, synthetic=synthetic)
    return fit_task("covidfl_vit", load, transformer, backbone=backbone)
