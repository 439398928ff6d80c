"""Student's distribution, and means with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.records import Floats

LEVEL = 0.95  # of every interval here


def quantile(freedom: int) -> float:
    """How many standard errors reach to either side of a mean: the 97.5 % point with that many degrees of freedom.

    >>> [round(quantile(n), 3) for n in (1, 2, 4)]
    [12.706, 4.303, 2.776]
    """
    return float(scipy_special().stdtrit(freedom, 0.5 + LEVEL / 2))


def two_sided_p(t: float, freedom: int) -> float:
    """How often chance alone gives a t at least this far from 0.

    >>> round(two_sided_p(quantile(4), 4), 6)
    0.05
    """
    return float(2.0 * scipy_special().stdtr(freedom, -abs(t)))


def scipy_special() -> Any:
    try:
        return import_module("scipy.special")
    except ImportError:
        raise BadInput("intervals need scipy, which is not installed; install fedfleet[train]") from None


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
        raise BadInput(f"{what} needs at least one value, but got none")
    not_finite = [v for v in numbers if not math.isfinite(v)]
    if not_finite:
        raise BadInput(f"{what} needs finite values, but one of them is {not_finite[0]}; leave it out or find out why")
    return numbers


def interval95(values: Floats) -> tuple[float, float] | None:
    """The 95 % confidence interval of the mean, by Student's t with n - 1 degrees of freedom; None for a single value.

    mean -+ t(0.975, n - 1) sd / sqrt(n). Three seeds: t = 4.30, so that one standard error says far too little.

    >>> [round(limit, 3) for limit in interval95(np.array([1.0, 2.0, 3.0])) or ()]
    [-0.484, 4.484]
    """
    n = len(values)
    if n < 2:
        return None
    half = quantile(n - 1) * float(np.std(values, ddof=1)) / math.sqrt(n)
    mean = float(np.mean(values))
    return mean - half, mean + half
