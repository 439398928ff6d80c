"""Whole-sample plans improved step by step on the true objective, many plans at once.

A move takes samples of class i that came from v away from j and gives them to k. Its effect on time depends on (v, j, k)
alone and its effect on imbalance on (i, j, k) alone, so all c V^3 moves are compared by adding two small tables.
A swap moves i from j to k and l from k to j: device sizes stay, so it repairs what single moves can not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedfleet.shuffle.divergence import EMPTY, Floats, Ints
from fedfleet.shuffle.objective import latencies

_TINY = 1e-300
_STREAK = 3  # so many moves in a row that helped before more samples move at once


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
    return _time(batch, latency) + _price(batch, _uneven(batch.plan.sum(2).astype(float)).max(1))


def take_plans(batch: PlanBatch, index: NDArray[np.integer] | NDArray[np.bool_]) -> PlanBatch:
    """Some of the plans."""
    return replace(
        batch, plan=batch.plan[index], links=batch.links[index], effort=batch.effort[index], alpha=batch.alpha[index]
    )


def descend(batch: PlanBatch, *, swaps: bool = True, most: int = 100_000) -> tuple[Ints, Floats]:
    """Best-improvement descent by moves, and by swaps where no move helps; returns plans and objectives.

    A plan that improves again and again moves twice as many samples at once, and half as many where that fails, so that a
    start far away costs steps by the logarithm of its samples; it stops where not even one sample helps, or after `most` steps.
    """
    plan = batch.plan.copy()
    value = objectives(batch)
    size, streak = np.ones(len(plan), np.int64), np.zeros(len(plan), np.int64)
    active = np.arange(len(plan))
    for _ in range(most):
        if not len(active):
            break
        here = take_plans(replace(batch, plan=plan), active)
        change, new = best_move(here, size[active])
        good = new < value[active] * (1.0 - 1e-12)
        plan[active[good]] += change[good]
        value[active[good]] = new[good]
        stuck = active[~good & (size[active] == 1)]
        streak[active] = np.where(good, streak[active] + 1, 0)
        grown = np.where(streak[active] >= _STREAK, 2 * size[active], size[active])
        streak[active] %= _STREAK
        size[active] = np.where(good, grown, np.maximum(size[active] // 2, 1))
        still = np.setdiff1d(active, stuck)
        if swaps and len(stuck):
            change, new = best_swap(take_plans(replace(batch, plan=plan), stuck))
            better = new < value[stuck] * (1.0 - 1e-12)
            plan[stuck[better]] += change[better]
            value[stuck[better]] = new[better]
            still = np.concatenate([still, stuck[better]])
        active = np.sort(still)
    return plan, value


def best_move(batch: PlanBatch, size: Ints) -> tuple[Ints, Floats]:
    """The best move of so many samples of each plan, as a change of the plan, and the objective after it."""
    b, c, v, _ = batch.plan.shape
    time = move_times(batch, size)  # [B, v, j, k]
    uneven = _move_imbalance(batch.plan.sum(2).astype(float), size)  # [B, c, j, k]
    have = batch.plan >= size[:, None, None, None]  # [B, c, v, j]
    cheapest = np.where(have[..., None], time[:, None], np.inf).min(2)  # [B, c, j, k]
    total = (cheapest + _price(batch, uneven.reshape(b, -1)).reshape(uneven.shape)).reshape(b, -1)
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
    shift = move_shifts(batch) * size[:, None, None, None, None]
    latency = latencies(batch.plan.sum(1).astype(float), batch.effort, batch.links)
    time = _time(batch, latency[:, None, None, None] + shift)
    i = np.arange(time.shape[1])
    time[:, :, i, i] = np.inf
    return time


def move_shifts(batch: PlanBatch) -> Floats:
    """Change of all latencies when one sample from v moves from j to k, [B, v, j, k, V]."""
    v = batch.effort.shape[1]
    unit = np.eye(v)
    # One sample from v at j costs W_vj to both ends (nothing at home) and the effort of j.
    held = batch.links[..., None] * (unit[:, None] + unit[None, :]) + batch.effort[:, None, :, None] * unit
    return held[:, :, None] - held[:, :, :, None]


def _move_imbalance(x: Floats, size: Ints) -> Floats:
    """The largest DI after `size` samples of class i leave j for k, [B, c, j, k]."""
    now = _uneven(x)  # [B, V]
    less, more = _uneven_after(x, -size), _uneven_after(x, size)  # [B, c, V]
    v = x.shape[2]
    rest = np.broadcast_to(now[:, None, None, :], (len(x), v, v, v)).copy()
    i = np.arange(v)
    rest[:, i, :, i] = 0.0
    rest[:, :, i, i] = 0.0
    return np.maximum(np.maximum(less[..., None], more[:, :, None, :]), rest.max(3)[:, None])


def _uneven(x: Floats) -> Floats:
    """DI of each column of x [B, c, V]."""
    return _divergence(_pieces(x, x.sum(1)).sum(1), x.sum(1))


def _pieces(x: Floats, mass: Floats) -> Floats:
    """Per-class terms of 2 G for devices of the given mass; x [.., c, V], mass [.., V]."""
    q = (mass / x.shape[-2])[..., None, :] + _TINY
    both = x + q
    return x * np.log(2.0 * np.maximum(x, _TINY) / both) + q * np.log(2.0 * q / both)


def _divergence(pieces: Floats, mass: Floats) -> Floats:
    return np.where(mass > 0.0, np.maximum(0.5 * pieces / np.where(mass > 0.0, mass, 1.0), 0.0), EMPTY)


def _uneven_after(x: Floats, change: Ints) -> Floats:
    """DI of each device after class i changes by `change` samples, [B, c, V]; what is not there can not leave."""
    mass = np.maximum(x.sum(1) + change[:, None], 0.0)
    before = _pieces(x, mass)
    after = _pieces(np.maximum(x + change[:, None, None], 0.0), mass)
    return _divergence(before.sum(1, keepdims=True) - before + after, np.broadcast_to(mass[:, None], x.shape))


def best_swap(batch: PlanBatch) -> tuple[Ints, Floats]:
    """The best exchange of two classes between the most uneven device and another, or of two origins of one class."""
    b, c, v, _ = batch.plan.shape
    rows = np.arange(b)
    x = batch.plan.sum(2).astype(float)
    uneven = _uneven(x)
    worst = uneven.argmax(1)
    best_value = np.full(b, np.inf)
    best_change = np.zeros_like(batch.plan)
    shift = move_shifts(batch)
    latency = latencies(batch.plan.sum(1).astype(float), batch.effort, batch.links)
    have = batch.plan > 0
    for other in range(v):
        # [B, v, v'] time after v's sample goes worst -> other and v''s comes back
        both = shift[rows, :, worst, other][:, :, None] + shift[rows, :, other, worst][:, None]
        time = _time(batch, latency[:, None, None] + both)
        swapped = _swap_imbalance(x, uneven, worst, other)  # [B, i, l]
        gone, back = have[rows, :, :, worst], have[:, :, :, other]  # [B, c, V]
        cheap = np.where(gone[:, :, :, None], time[:, None], np.inf).min(2)  # [B, i, v']
        total = np.full(swapped.shape, np.inf)  # [B, i, l]; a loop over few senders beats a reduction over a short axis
        for sender in range(v):
            np.minimum(total, np.where(back[:, None, :, sender], cheap[:, :, sender, None], np.inf), out=total)
        total += _price(batch, swapped.reshape(b, -1)).reshape(swapped.shape)
        total[worst == other] = np.inf
        pick = total.reshape(b, -1).argmin(1)
        value = total.reshape(b, -1)[rows, pick]
        i, k = np.unravel_index(pick, (c, c))
        pairs = np.where(gone[rows, i][:, :, None] & back[rows, k][:, None], time, np.inf).reshape(b, -1).argmin(1)
        one, two = np.unravel_index(pairs, (v, v))
        better = value < best_value
        change = np.zeros_like(batch.plan)
        change[rows, i, one, worst] -= 1
        change[rows, i, one, other] += 1
        change[rows, k, two, other] -= 1
        change[rows, k, two, worst] += 1
        best_change[better], best_value[better] = change[better], value[better]
    return best_change, best_value


def _swap_imbalance(x: Floats, uneven: Floats, worst: NDArray[np.integer], other: int) -> Floats:
    """The largest DI after class i goes from worst to other and class l comes back, [B, i, l]; sizes stay."""
    b, c, _ = x.shape
    rows = np.arange(b)
    mass = x.sum(1)
    now = _pieces(x, mass)
    minus = _pieces(np.maximum(x - 1.0, 0.0), mass) - now
    plus = _pieces(x + 1.0, mass) - now
    total = now.sum(1)
    same = np.eye(c, dtype=bool)
    first = total[rows, worst][:, None, None] + np.where(
        same, 0.0, minus[rows, :, worst][:, :, None] + plus[rows, :, worst][:, None]
    )
    second = total[:, other][:, None, None] + np.where(
        same, 0.0, plus[:, :, other][:, :, None] + minus[:, :, other][:, None]
    )
    rest = uneven.copy()
    rest[rows, worst] = 0.0
    rest[:, other] = 0.0
    mass_first, mass_second = mass[rows, worst][:, None, None], mass[:, other][:, None, None]
    both = np.maximum(_divergence(first, mass_first), _divergence(second, mass_second))
    return np.maximum(both, rest.max(1)[:, None, None])


def _time(batch: PlanBatch, latency: Floats) -> Floats:
    slowest = latency.max(-1)
    return slowest + latency.std(-1) if batch.balanced else slowest


def _price(batch: PlanBatch, uneven: Floats) -> Floats:
    worth = np.sqrt(uneven) if batch.root else uneven
    return batch.alpha.reshape(-1, *[1] * (uneven.ndim - 1)) * worth
