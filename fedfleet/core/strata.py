"""Strata: one whole number for each sample, by which partitions deal and users exchange samples, whatever the labels are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Dataset
from fedfleet.core.records import Ints

BINS = 10  # of the numbers of a regression, with as many samples in each


@dataclass(frozen=True, slots=True)
class Strata:
    """The stratum of each sample, below `count`."""

    of: Ints
    count: int


def strata(dataset: Dataset, where: str) -> Strata:
    """Classes are strata themselves; numbers fall into bins of equal size; a set of labels counts as its rarest label.

    A sequence has many labels and no stratum: `where` names in the refusal the key that asked.

    >>> found = strata(Dataset(np.zeros((4, 1)), np.array([[9.0], [1], [2], [3]], np.float32), 1), "world.data")
    >>> found.of.tolist(), found.count
    ([7, 0, 2, 5], 10)
    """
    y = dataset.y
    if y.dtype.kind == "f":
        return Strata(_bins(y), BINS)
    if y.dtype.kind == "b":
        return Strata(_rarest_labels(y), y.shape[1] + 1)
    if y.ndim == 2:
        raise BadInput(
            f'{where}: it goes by the label of a sample, and a sequence has one at every place; use world.data = "by_owner", '
            '"quantity" or "iid", without an edge that exchanges samples'
        )
    return Strata(y, dataset.classes)


def stratum_names(dataset: Dataset, found: Strata) -> tuple[str, ...]:
    """What each stratum is called: a class by its name or number, a bin of numbers by its range in the units of the label, a set of
    labels by the rarest one.

    >>> data = Dataset(np.zeros((20, 1)), np.arange(20.0, dtype=np.float32)[:, None], 1, target_scale=((100.0, 10.0),))
    >>> stratum_names(data, strata(data, "here"))[:2]
    ('100 to 110', '120 to 130')
    """
    y, names = dataset.y, dataset.label_names
    if y.dtype.kind == "b":
        return (*(names[i] if i < len(names) else f"label {i}" for i in range(y.shape[1])), "no label")
    if y.dtype.kind != "f":
        return tuple(names[i] if i < len(names) else str(i) for i in range(found.count))
    if y.shape[1] > 1:  # one number cannot say where several lie
        return tuple(f"tenth {i + 1} of {BINS}" for i in range(BINS))
    mean, deviation = dataset.target_scale[0] if dataset.target_scale else (0.0, 1.0)
    values = mean + deviation * np.asarray(y[:, 0], np.float64)
    return tuple(_range_name(values[found.of == i], i) for i in range(BINS))


def _range_name(values: np.ndarray, i: int) -> str:
    return f"{values.min():.4g} to {values.max():.4g}" if len(values) else f"bin {i + 1}, empty"


def _bins(y: np.ndarray) -> Ints:
    """The bin of each sample by the mean of its outputs, each in units of its own deviation."""
    values = np.asarray(y, np.float64)
    spread = values.std(0)
    place = ((values - values.mean(0)) / np.where(spread > 0, spread, 1.0)).mean(1)
    rank = np.argsort(np.argsort(place, kind="stable"), kind="stable")
    return (rank * BINS // max(len(rank), 1)).astype(np.int64)


def _rarest_labels(y: np.ndarray) -> Ints:
    """The rarest label that each sample has; those without any have a stratum of their own, the last."""
    order = np.argsort(y.sum(0), kind="stable")
    has_any = y.any(1)
    return np.where(has_any, order[y[:, order].argmax(1)], y.shape[1]).astype(np.int64)
