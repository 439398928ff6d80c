"""Tasks that predict numbers: how a disease goes on, and the lower half of a picture from its upper half."""

from __future__ import annotations

import gzip
import importlib.util
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from fedfleet.core.bounds import Ge, Le
from fedfleet.core.errors import BadInput
from fedfleet.core.kinds import REGRESSION
from fedfleet.core.limits import Width
from fedfleet.core.parts import Dataset
from fedfleet.core.records import Floats
from fedfleet.core.trees import Array
from fedfleet.tasks.digits import digits
from fedfleet.tasks.narrow_models import units
from fedfleet.tasks.task import TaskRecipe, fit_task

Hidden = Annotated[int, Ge(0), Le(2**20)]


@cache
def diabetes() -> Dataset:
    """442 patients, ten measurements each, and how far the disease had gone a year later (Efron et al. 2004); standardised."""
    spec = importlib.util.find_spec("sklearn")
    folders = [Path(at) / "datasets/data" for at in (spec.submodule_search_locations or ())] if spec else []
    folder = next((f for f in folders if (f / "diabetes_target.csv.gz").is_file()), None)
    if folder is None:
        raise BadInput("the diabetes dataset ships with scikit-learn, which is not installed; install fedfleet[train]")
    x, y = (_numbers(folder / name) for name in ("diabetes_data_raw.csv.gz", "diabetes_target.csv.gz"))
    scale = (float(y.mean()), float(y.std()))
    return Dataset(standardised(x), standardised(y), 1, kind=REGRESSION, label_names=("progression",), target_scale=(scale,))


def standardised(values: Floats) -> Array:
    """Columns with mean 0 and standard deviation 1, as float32."""
    return ((values - values.mean(0)) / values.std(0)).astype(np.float32)


def _numbers(path: Path) -> Floats:
    lines = gzip.decompress(path.read_bytes()).decode().split("\n")
    return np.array([line.split() for line in lines if line.strip()], np.float64)


@cache
def halves() -> Dataset:
    """The upper halves of handwritten digits, and the 32 pixels below as numbers to predict."""
    rows = digits().x.reshape(-1, 64)
    return Dataset(np.ascontiguousarray(rows[:, :32]), np.ascontiguousarray(rows[:, 32:]), 32, kind=REGRESSION)


def diabetes_mlp(hidden: Hidden = 16) -> TaskRecipe:
    """One number: how far diabetes went in a year, from ten measurements of 442 patients; linear regression with hidden = 0."""
    return fit_task("diabetes_mlp", diabetes, _perceptron(hidden))


def digits_completion(hidden: Width = 128) -> TaskRecipe:
    """Many numbers at once: the lower half of a handwritten digit, 32 pixels, from its upper half."""
    return fit_task("digits_completion", halves, _perceptron(hidden))


def _perceptron(hidden: int) -> Any:
    def net(shape: tuple[int, ...], outputs: int, scale: float = 1.0) -> Any:
        from fedfleet.tasks.nets.small import perceptron

        return perceptron(shape[0], [units(hidden, scale)] if hidden else [], outputs)

    return net
