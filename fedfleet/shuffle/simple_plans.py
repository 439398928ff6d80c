"""Plans that need no solver: keep everything, or give every device a share of every class, by speed or evenly or to some."""

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


def start_plans(problem: Problem) -> Floats:
    """Plans [S, V, c, V] to descend from where rounding the real optimum leads nowhere.

    Keeping everything, sharing by speed, sharing evenly, and sharing by speed among all but one: where a slow device would
    hold one sample of many classes, none at all or an even share can be far better, and neither is near the real optimum.
    """
    devices = len(problem.counts)
    speed = 1.0 / effort(problem)
    shares = [speed, np.ones(devices)]
    if devices > 2:
        shares += [np.where(np.arange(devices) == v, 0.0, speed) for v in range(devices)]
    return np.stack([identity(problem).astype(float), *(proportional(problem, some) for some in shares)])
