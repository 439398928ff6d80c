"""The best swap of each plan: class i goes from j to k and class l from k to j.

Device sizes stay, so it repairs what single moves can not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedfleet.shuffle.divergence import Floats, Ints
from fedfleet.shuffle.objective import latencies
from fedfleet.shuffle.plan_batch import PlanBatch, divergence, pieces, price, sample_costs, spread_time


def best_swap(batch: PlanBatch) -> tuple[Ints, Floats]:
    """The best exchange of two classes between the most uneven device and another, or of two origins of one class."""
    b, c, v, _ = batch.plan.shape
    rows = np.arange(b)
    tables = _swap_tables(batch.plan.sum(2).astype(float))
    worst = tables.worst
    held = sample_costs(batch)
    latency = latencies(batch.plan.sum(1).astype(float), batch.effort, batch.links)
    have = batch.plan > 0
    gone = have[rows, :, :, worst]  # [B, c, V]
    best_value = np.full(b, np.inf)
    best_change = np.zeros_like(batch.plan)
    for other in range(v):
        # [B, v, v'] time after v's sample goes worst -> other and v''s comes back
        moved = held[:, :, :, other] - held[:, rows, :, worst].transpose(1, 0, 2)  # [V, B, v]
        time = spread_time(batch, latency.T[:, :, None, None] + moved[..., None] - moved[:, :, None])
        back = have[:, :, :, other]
        cheap = np.where(gone[:, :, :, None], time[:, None], np.inf).min(2)  # [B, i, v']
        total = np.full((b, c, c), np.inf)
        for sender in range(v):
            np.minimum(total, np.where(back[:, None, :, sender], cheap[:, :, sender, None], np.inf), out=total)
        total += price(batch, _swap_imbalance(tables, other))
        total[worst == other] = np.inf
        pick = total.reshape(b, -1).argmin(1)
        value = total.reshape(b, -1)[rows, pick]
        i, k = np.unravel_index(pick, (c, c))
        pairs = np.where(gone[rows, i][:, :, None] & back[rows, k][:, None], time, np.inf).reshape(b, -1).argmin(1)
        one, two = np.unravel_index(pairs, (v, v))
        better = value < best_value
        change = np.zeros_like(batch.plan)
        for place, n in (((i, one, worst), -1), ((i, one, other), 1), ((k, two, other), -1), ((k, two, worst), 1)):
            change[rows, *place] += n
        best_change[better], best_value[better] = change[better], value[better]
    return best_change, best_value


@dataclass(frozen=True, slots=True)
class _SwapTables:
    """What all swaps of the most uneven devices share: twice G of each device, and its change by a class less or more."""

    worst: NDArray[np.integer]  # [B]
    uneven: Floats  # [B, V]
    mass: Floats  # [B, V]
    total: Floats  # [B, V]
    minus: Floats  # [B, c, V]
    plus: Floats
    first: Floats  # [B, i, l] DI of the worst device after class i left it and class l came


def _swap_tables(x: Floats) -> _SwapTables:
    mass = x.sum(1)
    now = pieces(x, mass)
    minus, plus = pieces(np.maximum(x - 1.0, 0.0), mass) - now, pieces(x + 1.0, mass) - now
    total = now.sum(1)
    uneven = divergence(total, mass)
    worst = uneven.argmax(1)
    rows = np.arange(len(x))
    first = _imbalance_after_swap(total[rows, worst], minus[rows, :, worst], plus[rows, :, worst], mass[rows, worst])
    return _SwapTables(worst, uneven, mass, total, minus, plus, first)


def _swap_imbalance(tables: _SwapTables, other: int) -> Floats:
    """The largest DI after class i goes from worst to other and class l comes back, [B, i, l]; sizes stay."""
    plus, minus = tables.plus[:, :, other], tables.minus[:, :, other]
    second = _imbalance_after_swap(tables.total[:, other], plus, minus, tables.mass[:, other])
    rest = tables.uneven.copy()
    rest[np.arange(len(rest)), tables.worst] = 0.0
    rest[:, other] = 0.0
    return np.maximum(np.maximum(tables.first, second, out=second), rest.max(1)[:, None, None], out=second)


def _imbalance_after_swap(total: Floats, row: Floats, column: Floats, mass: Floats) -> Floats:
    """DI of one device of each plan after one change by `row` [B, i] and one by `column` [B, l]; none where i = l."""
    pieces = (total[:, None] + row)[:, :, None] + column[:, None]
    same = np.arange(row.shape[1])
    pieces[:, same, same] = total[:, None]
    return divergence(pieces, mass[:, None, None])
