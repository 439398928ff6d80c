"""The best move of each plan: samples of class i that came from v leave j for k.

Its effect on time depends on (v, j, k) alone and its effect on imbalance on (i, j, k) alone, so all c V^3 moves are compared
by adding two small tables.
"""

from __future__ import annotations

import numpy as np

from fedfleet.shuffle.divergence import Floats, Ints
from fedfleet.shuffle.objective import latencies
from fedfleet.shuffle.plan_batch import PlanBatch, divergence, pieces, price, sample_costs, spread_time, unevenness


def best_move(batch: PlanBatch, size: Ints) -> tuple[Ints, Floats]:
    """The best move of so many samples of each plan, as a change of the plan, and the objective after it."""
    b, c, v, _ = batch.plan.shape
    time = move_times(batch, size)  # [B, v, j, k]
    total = np.full((b, c, v, v), np.inf)  # [B, c, j, k]; a loop over few senders beats a reduction over a short axis
    have = batch.plan >= size[:, None, None, None]  # [B, c, v, j]
    for sender in range(v):
        np.minimum(total, np.where(have[:, :, sender, :, None], time[:, None, sender], np.inf), out=total)
    uneven = _move_imbalance(batch.plan.sum(2).astype(float), size)  # [B, c, j, k]
    total = (total + price(batch, uneven)).reshape(b, -1)
    pick = total.argmin(1)
    i, j, k = np.unravel_index(pick, (c, v, v))
    rows = np.arange(b)
    source = np.where(have[rows, i, :, j], time[rows, :, j, k], np.inf).argmin(1)
    change = np.zeros_like(batch.plan)
    change[rows, i, source, j] -= size
    change[rows, i, source, k] += size
    return change, total[rows, pick]


def move_times(batch: PlanBatch, size: Ints) -> Floats:
    """max + std of latencies after `size` samples from v move from j to k, [B, v, j, k]; infinite where j = k."""
    held = sample_costs(batch) * size[:, None, None]
    latency = latencies(batch.plan.sum(1).astype(float), batch.effort, batch.links)
    time = spread_time(batch, (latency.T[:, :, None, None] - held)[..., None] + held[:, :, :, None])
    i = np.arange(time.shape[1])
    time[:, :, i, i] = np.inf
    return time


def _move_imbalance(x: Floats, size: Ints) -> Floats:
    """The largest DI after `size` samples of class i leave j for k, [B, c, j, k]."""
    now = unevenness(x)  # [B, V]
    less, more = _uneven_after(x, -size), _uneven_after(x, size)  # [B, c, V]
    v = x.shape[2]
    rest = np.broadcast_to(now[:, None, None, :], (len(x), v, v, v)).copy()
    i = np.arange(v)
    rest[:, i, :, i] = 0.0
    rest[:, :, i, i] = 0.0
    return np.maximum(np.maximum(less[..., None], more[:, :, None, :]), rest.max(3)[:, None])


def _uneven_after(x: Floats, change: Ints) -> Floats:
    """DI of each device after class i changes by `change` samples, [B, c, V]; what is not there can not leave."""
    mass = np.maximum(x.sum(1) + change[:, None], 0.0)
    before = pieces(x, mass)
    after = pieces(np.maximum(x + change[:, None, None], 0.0), mass)
    return divergence(before.sum(1, keepdims=True) - before + after, np.broadcast_to(mass[:, None], x.shape))
