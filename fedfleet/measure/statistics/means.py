"""Means over seeds with Student's interval, 95 %."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.measure.statistics.student import quantile


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over n values, their standard deviation (ddof 1), and the 95 % interval of the mean.

    One value says nothing of others: sd, low and high are None.
    """

    value: float
    sd: float | None
    low: float | None
    high: float | None
    n: int


def mean_of(values: Sequence[float], *, least: float = -math.inf, most: float = math.inf) -> Mean:
    """mean -+ t(0.975, n - 1) sd / sqrt(n), cut to what is possible: a share lies between 0 and 1.

    >>> found = mean_of([1.0, 2.0, 3.0], least=0.0)
    >>> found.value, found.sd, found.low, round(found.high or 0, 3)
    (2.0, 1.0, 0.0, 4.484)
    >>> mean_of([0.5])
    Mean(value=0.5, sd=None, low=None, high=None, n=1)
    """
    numbers = finite_values(values, "a mean")
    n, value = len(numbers), float(np.mean(numbers))
    if n < 2:
        return Mean(value, None, None, None, n)
    sd = float(np.std(numbers, ddof=1))
    half = quantile(n - 1) * sd / math.sqrt(n)
    return Mean(value, sd, max(least, value - half), min(most, value + half), n)


def finite_values(values: Sequence[float], what: str) -> list[float]:
    """The values as numbers; none at all, or one that is not finite, has no statistic."""
    numbers = [float(v) for v in values]
    if not numbers:
        raise BadInput(f"{what} needs at least one value, and there is none")
    not_finite = [v for v in numbers if not math.isfinite(v)]
    if not_finite:
        raise BadInput(f"{what} needs finite values, and one of them is {not_finite[0]}; leave it out or find out why")
    return numbers
