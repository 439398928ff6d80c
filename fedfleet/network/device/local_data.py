"""A person's own samples: read from a file or a folder, fitted to what the model takes, split into training and test.

Nothing here loads more than numpy, so that a device can say how much it holds before it trains anything.
"""

from __future__ import annotations

import csv
import math
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput, nearest_file
from fedfleet.core.records import Ints
from fedfleet.core.rng import stream
from fedfleet.core.trees import Array
from fedfleet.tasks.user_data.samples import data
from fedfleet.tasks.user_data.tabular_files import READERS, read_table_file

ACCEPTED_FORMATS = (
    "an .npz with arrays x and y; a .csv with a column called label and one sample a row; or a folder with one sub-folder for each "
    "class, called by its number, with .npy files (one sample each) or .csv files (one sample a row)"
)
_TEST_SHARE = 0.2
_LABELS = ("label", "y", "class")
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, EOFError, IndexError, zipfile.BadZipFile, csv.Error)


@dataclass(frozen=True, slots=True)
class ModelInputs:
    """What a model takes: the shape and the type of one sample, and how many classes it tells apart."""

    shape: tuple[int, ...]
    kind: str
    classes: int


def read_samples(path: Path) -> tuple[Array, Ints]:
    """The samples of a file or folder, one row each, and their labels; what is wrong there is said in one sentence."""
    if not path.exists():
        raise BadInput(f"--data: {path} does not exist{nearest_file(path) or f'; give {ACCEPTED_FORMATS}'}")
    try:
        x, y = _folder(path) if path.is_dir() else _file(path)
    except _UNREADABLE as error:
        raise BadInput(f"--data: {path} cannot be read ({type(error).__name__}: {error}); give {ACCEPTED_FORMATS}") from None
    if x.ndim < 2 or len(x) < 2 or x.dtype.kind not in "fiub":
        raise BadInput(f"--data: {path} holds {x.dtype} of shape {x.shape}; give at least two samples, one row each")
    return x, _labels(y, len(x), path)


def sample_count(path: Path) -> int:
    """How many samples a file or folder holds, before the run has said how it reads them."""
    if path.is_file() and path.suffix.lower() in READERS:
        table = read_table_file(path)
        return len(table.columns[0].values)
    try:
        return len(read_samples(path)[1])
    except BadInput:
        if not path.exists():
            raise
        return len(data(path).y)


def split_counts(samples: int) -> tuple[int, int]:
    """How many of so many samples are trained on, and how many test.

    >>> split_counts(100), split_counts(2)
    ((80, 20), (1, 1))
    """
    test = max(1, round(_TEST_SHARE * samples))
    return samples - test, test


def split_rows(samples: int, seed: int, key: int) -> tuple[Ints, Ints]:
    """Which rows are trained on and which test: the same ones every time that this client asks."""
    train, _ = split_counts(samples)
    order = stream(seed, "own samples", key).permutation(samples)
    return np.sort(order[:train]), np.sort(order[train:])


def fit_to_model(x: Array, y: Ints, inputs: ModelInputs, path: Path) -> Array:
    """The samples as the model takes them: bytes become numbers from 0 to 1, and flat rows get the model's shape."""
    if int(y.max()) >= inputs.classes:
        row = int(np.argmax(y))
        raise BadInput(
            f"--data: {path}: sample {row} is of class {y[row]}, but this run has {inputs.classes} classes, 0 to "
            f"{inputs.classes - 1}; number the classes as the run does"
        )
    if x.shape[1:] != inputs.shape and math.prod(x.shape[1:]) != math.prod(inputs.shape):
        raise BadInput(
            f"--data: {path}: each sample has the shape {x.shape[1:]}, but this run's model takes {inputs.shape}; convert them to "
            "that shape"
        )
    return _cast(x, np.dtype(inputs.kind), path).reshape(len(x), *inputs.shape)


def _cast(x: Array, kind: np.dtype[Any], path: Path) -> Array:
    if kind.kind != "f":
        if x.dtype.kind == "f" and not (x == np.rint(x)).all():
            raise BadInput(f"--data: {path}: this run's model takes whole numbers; round the samples")
        return np.ascontiguousarray(x.astype(kind))
    if x.dtype == np.uint8:
        x = np.multiply(x, np.float32(1 / 255), dtype=np.float32)
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(x.astype(kind))
    bad_rows = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(1))
    if len(bad_rows):
        raise BadInput(f"--data: {path}: sample {bad_rows[0]} holds values that are not finite; fill or drop them")
    return values


def _file(path: Path) -> tuple[Array, Any]:
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return file["x"], file["y"]
    if path.suffix == ".csv":
        return _table(path)
    raise BadInput(f"--data: {path} is of a file type that cannot be read; give {ACCEPTED_FORMATS}")


def _table(path: Path) -> tuple[Array, Any]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.reader(file))
    names = [name.strip().lower() for name in rows[0]] if rows else []
    label_column = next((names.index(word) for word in _LABELS if word in names), None)
    if label_column is None:
        raise BadInput(f"--data: {path} has no column called label; give this name to the column with the class numbers")
    body = [row for row in rows[1:] if row]
    labels = [float(row[label_column]) for row in body]
    return np.array([_numbers(row[:label_column] + row[label_column + 1 :]) for row in body], np.float32), np.array(labels)


def _folder(path: Path) -> tuple[Array, Any]:
    stacked_samples, labels = list[Array](), list[int]()
    for inner in sorted(p for p in path.iterdir() if p.is_dir()):
        number = re.match(r"\d+", inner.name)
        if number is None:
            raise BadInput(f"--data: {inner} does not begin with the number of a class; name it for example 3 or 3-bicycle")
        for file in sorted(inner.iterdir()):
            samples = _samples(file)
            stacked_samples += samples
            labels += [int(number[0])] * len(samples)
    if not stacked_samples:
        raise BadInput(f"--data: {path} holds no samples; give {ACCEPTED_FORMATS}")
    return np.stack(stacked_samples), np.array(labels)


def _samples(file: Path) -> list[Array]:
    if file.suffix == ".npy":
        return [np.load(file, allow_pickle=False)]
    if file.suffix == ".csv":
        with file.open(newline="", encoding="utf-8-sig") as text:
            return [np.array(_numbers(row), np.float32) for row in csv.reader(text) if row]
    return []


def _numbers(row: Sequence[str]) -> list[float]:
    return [float(cell) for cell in row]


def _labels(values: Any, samples: int, path: Path) -> Ints:
    y = np.asarray(values)
    if y.shape != (samples,):
        raise BadInput(f"--data: {path} has {samples} samples and labels of shape {y.shape}; give one label for each")
    if y.dtype.kind not in "iuf" or not (np.isfinite(y).all() and (y == np.rint(y)).all() and (y >= 0).all()):
        raise BadInput(f"--data: {path}: labels must be the numbers of classes, 0, 1, ..; number them as the run does")
    return y.astype(np.int64)
