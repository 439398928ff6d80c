"""Plans that need no solver: keep everything, or give every device the same share of every class."""

from __future__ import annotations

import numpy as np

from fedfleet.shuffle.divergence import Floats, Ints
from fedfleet.shuffle.problem import Problem, effort


def identity(problem: Problem) -> Ints:
    """Nobody sends anything: no communication, the imbalance that there was."""
    devices, classes = problem.counts.shape
    plan = np.zeros((devices, classes, devices), np.int64)
    own = np.arange(devices)
    plan[own, :, own] = problem.counts
    return plan


def proportional(problem: Problem, shares: Floats | None = None) -> Floats:
    """Every device j receives the share theta_j of every row, by default in proportion to its speed 1 / (3 E p_j).

    Then every device looks like the user as a whole: DI_j = JS(user's totals || uniform), the least possible.
    """
    theta = 1.0 / effort(problem) if shares is None else np.asarray(shares, float)
    return problem.counts[:, :, None] * (theta / theta.sum())
