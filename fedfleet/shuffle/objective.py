"""What a plan costs: Eq. (7), max SL + std SL + alpha max DI, with each term, for whole or fractional plans."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedfleet.shuffle.divergence import Floats, Ints, imbalance
from fedfleet.shuffle.problem import Problem, effort, link


@dataclass(frozen=True, slots=True)
class PlanScore:
    """The objective of one plan and what it is made of; `moved` counts each sample that changes device once."""

    objective: float
    max_latency: float
    std_latency: float
    max_imbalance: float
    latency: Floats  # [V]
    imbalance: Floats  # [V]
    moved: float


def latencies(flows: Floats, seconds: Floats, links: Floats) -> Floats:
    """SL_v of each device: both ends pay each transfer (Eq. 5), and 3 E p_v per sample held (Eq. 6 without floor).

    `flows` [.., V, V] counts samples from device v to j, `seconds` [.., V] is the effort per sample.
    """
    paid = flows * links
    return paid.sum(-1) + paid.sum(-2) + seconds * flows.sum(-2)


def score(problem: Problem, plan: Ints | Floats) -> PlanScore:
    """Eq. (7) of plan[v][i][j], the class-i samples that v hands to j; the standard deviation is the population's."""
    flows = plan.sum(1).astype(float)
    latency = latencies(flows, effort(problem), link(problem))
    uneven = imbalance(plan.sum(0).astype(float))
    if problem.js_root:
        uneven = np.sqrt(uneven)
    slowest, deviation, worst = float(latency.max()), float(latency.std()), float(uneven.max())
    total = slowest + problem.time_balance * deviation + problem.alpha * worst
    return PlanScore(total, slowest, deviation, worst, latency, uneven, float(flows.sum() - np.trace(flows)))
