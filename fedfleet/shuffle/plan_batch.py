"""Many whole plans side by side, and what an objective is made of: time over devices, imbalance, its price."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedfleet.shuffle.divergence import EMPTY, Floats, Ints
from fedfleet.shuffle.problem import latencies

_TINY = 1e-300


@dataclass(frozen=True, slots=True)
class PlanBatch:
    """B integer plans [B, c, V, V] (class, from, to) and what their objectives need; all in seconds and samples."""

    plan: Ints
    links: Floats  # [B, V, V]
    effort: Floats  # [B, V]
    alpha: Floats  # [B]
    balanced: bool
    root: bool


def objectives(batch: PlanBatch) -> Floats:
    """Eq. (7) of each plan."""
    latency = latencies(batch.plan.sum(1).astype(float), batch.effort, batch.links)
    return spread_time(batch, latency.T) + price(batch, unevenness(batch.plan.sum(2).astype(float)).max(1))


def take_plans(batch: PlanBatch, index: NDArray[np.integer] | NDArray[np.bool_]) -> PlanBatch:
    """Some of the plans."""
    return replace(batch, plan=batch.plan[index], links=batch.links[index], effort=batch.effort[index], alpha=batch.alpha[index])


def sample_costs(batch: PlanBatch) -> Floats:
    """What one sample from v to j costs each device, [V, B, v, j], devices first: W_vj at both ends, and the effort of j."""
    unit = np.eye(batch.effort.shape[1])[:, None]  # [V, 1, V]
    return ((unit[..., None] + unit[:, :, None]) * batch.links) + unit[:, :, None] * batch.effort[:, None, :]


def unevenness(x: Floats) -> Floats:
    """DI of each column of x [.., c, V]."""
    mass = x.sum(-2)
    return divergence(pieces(x, mass).sum(-2), mass)


def pieces(x: Floats, mass: Floats) -> Floats:
    """Per-class terms of 2 G for devices of the given mass; x [.., c, V], mass [.., V]."""
    q = (mass / x.shape[-2])[..., None, :] + _TINY
    both = x + q
    return x * np.log(2.0 * np.maximum(x, _TINY) / both) + q * np.log(2.0 * q / both)


def divergence(pieces: Floats, mass: Floats) -> Floats:
    """DI from the sum of its terms, at least 0 whatever rounding says; that of an empty device is a matter of definition."""
    return np.where(mass > 0.0, np.maximum(0.5 * pieces / np.where(mass > 0.0, mass, 1.0), 0.0), EMPTY)


def spread_time(batch: PlanBatch, latency: Floats) -> Floats:
    """max + std over the devices, which come first."""
    slowest = latency.max(0)
    if not batch.balanced:
        return slowest
    away = latency - latency.sum(0) / len(latency)
    return slowest + np.sqrt((away * away).sum(0) / len(latency))


def price(batch: PlanBatch, uneven: Floats) -> Floats:
    """What these imbalances, [B, ..], cost."""
    worth = np.sqrt(uneven) if batch.root else uneven
    return batch.alpha.reshape(-1, *[1] * (uneven.ndim - 1)) * worth
