"""The best bundle of each plan: a share of every class that j holds goes to k at once.

A single sample spoils the evenness of the device that it leaves and of the one that it joins, so that moves stop where much
time could still be won by moving samples of all classes together.
"""

from __future__ import annotations

import numpy as np

from fedfleet.shuffle.divergence import Floats, Ints
from fedfleet.shuffle.objective import latencies
from fedfleet.shuffle.plan_batch import PlanBatch, price, sample_costs, spread_time, unevenness

SHARES = (1.0, 0.5, 0.25, 0.125, 0.0625)


def best_bundle(batch: PlanBatch) -> tuple[Ints, Floats]:
    """The best bundle of each plan, as a change of the plan, and the objective after it."""
    b, _, v, _ = batch.plan.shape
    x = batch.plan.sum(2)  # [B, c, V]
    sizes = np.stack([*(np.rint(share * x).astype(np.int64) for share in SHARES), np.minimum(x, 1)], 1)  # [B, F, c, V]
    rows = np.arange(b)
    best_value, best_change = np.full(b, np.inf), np.zeros_like(batch.plan)
    for j in range(v):
        wanted = sizes[..., j]  # [B, F, c]
        sent = _choose_samples(batch, wanted, j)
        total = _times(batch, sent.sum(3), j) + price(batch, _imbalances(x.astype(float), wanted, j))  # [B, F, k]
        total[..., j] = np.inf
        pick = total.reshape(b, -1).argmin(1)
        value = total.reshape(b, -1)[rows, pick]
        f, k = np.unravel_index(pick, total.shape[1:])
        change = np.zeros_like(batch.plan)
        change[..., j] -= sent[rows, f, k]
        change[rows, :, :, k] += sent[rows, f, k]
        better = value < best_value
        best_value[better], best_change[better] = value[better], change[better]
    return best_change, best_value


def _choose_samples(batch: PlanBatch, wanted: Ints, j: int) -> Ints:
    """Whose samples go from j to each k, [B, F, k, c, v]: first those whose way to k is cheapest against that to j."""
    dearer = (batch.links - batch.links[:, :, j, None]).transpose(0, 2, 1)  # [B, k, v]
    order = np.argsort(dearer, axis=2, kind="stable")[:, :, None]  # [B, k, 1, v]
    have = np.take_along_axis(batch.plan[:, None, :, :, j], order, 3)  # [B, k, c, v], the cheapest first
    taken = np.clip(wanted[:, :, None, :, None] - (np.cumsum(have, 3) - have)[:, None], 0, have[:, None])
    return np.take_along_axis(taken, np.argsort(order, axis=3)[:, None], 4)


def _times(batch: PlanBatch, sent: Ints, j: int) -> Floats:
    """max + std of latencies after so many samples of each sender, [B, F, k, v], went from j to k."""
    costs = sample_costs(batch)  # [V, B, v, k]
    shift = costs - costs[..., j, None]
    latency = latencies(batch.plan.sum(1).astype(float), batch.effort, batch.links)
    return spread_time(batch, latency.T[:, :, None, None] + np.einsum("bfkv,dbvk->dbfk", sent, shift))


def _imbalances(x: Floats, wanted: Ints, j: int) -> Floats:
    """The largest DI after such bundles left j for each k, [B, F, k]."""
    sender = unevenness((x[:, None, :, j] - wanted)[..., None])  # [B, F, 1]
    receiver = unevenness(x[:, None] + wanted[..., None])  # [B, F, k]
    others = np.broadcast_to(unevenness(x)[:, None], (len(x), x.shape[2], x.shape[2])).copy()  # [B, k, V]
    others[:, np.arange(x.shape[2]), np.arange(x.shape[2])] = 0.0
    others[:, :, j] = 0.0
    return np.maximum(np.maximum(sender, receiver), others.max(2)[:, None])
