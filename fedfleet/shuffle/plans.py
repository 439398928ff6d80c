"""Plans: those that need no solver, real ones rounded to whole samples, and many side by side with what their objectives are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedfleet.shuffle.divergence import EMPTY, Floats, Ints
from fedfleet.shuffle.problem import Problem, effort, latencies


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


# ---- rounding -----------------------------------------------------------------------------------------------------
# From real plans to whole samples with exact row sums: controlled rounding, then a cheap transport per class.


def round_holdings(x: Floats, totals: Ints) -> Ints:
    """Whole counts near x [B, c, V]: class totals exact, device totals within about a sample, by fraction plus what is owed."""
    b, c, v = x.shape
    floor = np.floor(x + 1e-9)
    owed = np.zeros((b, v))
    whole = np.empty((b, c, v), np.int64)
    for i in range(c):
        base = floor[:, i]
        owed = owed + x[:, i] - base
        left = totals[:, i] - base.sum(1)
        eligible = np.where(x[:, i] > 1e-9, owed, -np.inf)
        extra = np.argsort(np.argsort(-eligible, axis=1, kind="stable"), axis=1, kind="stable") < left[:, None]
        whole[:, i] = (base + extra).astype(np.int64)
        owed = owed - extra
    return whole


def spread_rest(plan: Floats, counts: Ints, holdings: Ints) -> Ints:
    """Whole plans [B, c, V, V] near real ones with these rows and holdings [B, c, V]: floored, then largest fractions first."""
    b, c, v = counts.shape
    whole = np.floor(plan + 1e-9).astype(np.int64)
    left, wanted = counts - whole.sum(3), holdings - whole.sum(2)
    order = np.argsort(-(plan - whole).reshape(b, c, v * v), axis=2, kind="stable")
    flat, rest, need = whole.reshape(b * c, v * v), left.reshape(b * c, v), wanted.reshape(b * c, v)
    order = order.reshape(b * c, v * v)
    rows = np.arange(b * c)
    for step in range(v * v):
        pick = order[:, step]
        source, target = pick // v, pick % v
        sent = np.maximum(np.minimum(rest[rows, source], need[rows, target]), 0)
        flat[rows, pick] += sent
        rest[rows, source] -= sent
        need[rows, target] -= sent
    own = np.arange(v)
    flat[:, own * v + own] += rest  # a fraction of nearly one can leave a sample over: it stays at home
    return flat.reshape(b, c, v, v)


def round_plans(plan: Floats, counts: Ints) -> Ints:
    """Whole plans near real ones [B, c, V, V]; rows sum to counts [B, c, V] exactly."""
    return spread_rest(plan, counts, round_holdings(plan.sum(2), counts.sum(2)))


def largest_remainder(plan: Floats, counts: Ints) -> Ints:
    """The plain way, row by row: floor, then one more where the fraction is largest."""
    base = np.floor(plan + 1e-9)
    left = counts - base.sum(3)
    rank = np.argsort(np.argsort(-(plan - base), axis=3, kind="stable"), axis=3, kind="stable")
    return (base + (rank < left[..., None])).astype(np.int64)


# ---- many plans side by side --------------------------------------------------------------------------------------
# What an objective is made of: time over devices, imbalance, its price.

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
