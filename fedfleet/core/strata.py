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
