"""Figures over seeds: what a mean of few simulations is worth."""

from __future__ import annotations

import math

import numpy as np

from fedfleet.core.records import Floats
from fedfleet.measure.statistics.student import quantile


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
