"""The barrier function whose minimisers, as mu falls, lead to the relaxed optimum: points, values, the softened time.

    Phi = [psi(SL) + price(t)] / mu - sum_v ln(t N_v - G(x_v)) - sum ln T - sum_v ln(N_v - floor) - ln(t - low) - ln(high - t)

psi is max + std with its own barrier minimised out, so that it has no kinks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedfleet.shuffle.divergence import LARGEST, Floats, perspective
from fedfleet.shuffle.objective import latencies
from fedfleet.shuffle.problem_batch import RelaxedProblems, price

HIGH = LARGEST * 1.05  # t may pass ln 2 a little, so that ln 2 itself lies inside
_TINY = 1e-300


@dataclass(frozen=True, slots=True)
class Point:
    """Where a path is: plans [B, c, V, V], t [B], and what both the value and the step need of them."""

    plan: Floats
    t: Floats
    x: Floats  # [B, c, V] what each device would hold
    mass: Floats  # [B, V]
    slack: Floats  # [B, V] t N - G, positive inside; 1 for a closed device
    slope: Floats  # [B, c, V] gradient of G
    latency: Floats  # [B, V]


def point_at(stack: RelaxedProblems, plan: Floats, t: Floats) -> Point:
    """The derived quantities of a plan."""
    x, flows = plan.sum(2), plan.sum(1)
    mass = flows.sum(1)
    grown, slope = perspective(x)
    slack = np.where(stack.open, t[:, None] * mass - grown, 1.0)
    return Point(plan, t, x, mass, slack, slope, latencies(flows, stack.effort, stack.links))


@dataclass(frozen=True, slots=True)
class SoftTime:
    """psi at some latencies: its value, the weights p of the max, sigma of the deviation and the centred latencies."""

    value: Floats  # [B]
    p: Floats  # [B, V], sums to 1
    sigma: Floats  # [B]
    centred: Floats  # [B, V]


def soft_time(stack: RelaxedProblems, latency: Floats, mu: Floats) -> SoftTime:
    """min over tau, sigma of tau + sigma - mu sum ln(tau - SL_v) - mu ln(sigma^2 - var).

    tau solves sum mu / (tau - SL) = 1 (Newton on the reciprocal, which is concave: monotone from the left);
    sigma = mu + sqrt(mu^2 + var) in closed form.
    """
    m = mu[:, None]
    gap = latency.max(1, keepdims=True) - latency
    above = m
    for _ in range(4):
        p = m / (gap + above)
        total = p.sum(1, keepdims=True)
        above = above + (total - 1.0) * total * m / (p * p).sum(1, keepdims=True)
    p = m / (gap + above)
    value = (above + latency.max(1, keepdims=True) + m * np.log(p).sum(1, keepdims=True))[:, 0]
    p = p / p.sum(1, keepdims=True)
    centred = latency - latency.mean(1, keepdims=True)
    if not stack.balanced:
        return SoftTime(value, p, np.ones_like(mu), centred)
    variance = (centred * centred).mean(1)
    sigma = mu + np.sqrt(mu * mu + variance)
    return SoftTime(value + sigma - mu * np.log(2.0 * mu * sigma), p, sigma, centred)


def time_weights(stack: RelaxedProblems, latency: Floats, mu: Floats) -> Floats:
    """y: the gradient of psi, a weight per device with max + std >= y . SL for every latency vector."""
    soft = soft_time(stack, latency, mu)
    if not stack.balanced:
        return soft.p
    return soft.p + soft.centred / (latency.shape[1] * soft.sigma[:, None])


def is_inside(stack: RelaxedProblems, at: Point) -> NDArray[np.bool_]:
    """Whether every barrier of a problem is finite."""
    good = (at.slack > 0.0).all(1) & ((at.mass > stack.floor[:, None]) | ~stack.open).all(1)
    return good & (~np.isnan(stack.pinned) | ((at.t > stack.low) & (at.t < HIGH)))


def barrier_value(stack: RelaxedProblems, at: Point, mu: Floats) -> Floats:
    """Phi of each problem; infinite outside."""
    free = np.isnan(stack.pinned)
    room = np.where(stack.open & (stack.floor[:, None] > 0.0), at.mass - stack.floor[:, None], 1.0)
    below, above = np.where(free, at.t - stack.low, 1.0), np.where(free, HIGH - at.t, 1.0)
    soft = soft_time(stack, at.latency, mu).value + np.where(free, price(stack, at.t)[0], 0.0)
    logs = np.log(np.where(at.plan > 0.0, at.plan, 1.0)).sum((1, 2, 3))
    logs += np.log(np.maximum(at.slack * room, _TINY)).sum(1) + np.log(np.maximum(below * above, _TINY))
    return np.where(is_inside(stack, at), soft / mu - logs, np.inf)
