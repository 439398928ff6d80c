"""Whole-sample plans improved step by step on the true objective, many plans at once: by moves, then swaps, then bundles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from numpy.typing import NDArray

from fedfleet.shuffle.divergence import Floats, Ints
from fedfleet.shuffle.plans import (
    PlanBatch,
    divergence,
    objectives,
    pieces,
    price,
    sample_costs,
    spread_time,
    take_plans,
    unevenness,
)
from fedfleet.shuffle.problem import latencies

# ---- moves --------------------------------------------------------------------------------------------------------
# The best move of each plan: samples of class i that came from v leave j for k.
#
# Its effect on time depends on (v, j, k) alone and its effect on imbalance on (i, j, k) alone, so all c V^3 moves are compared
# by adding two small tables.


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


# ---- swaps --------------------------------------------------------------------------------------------------------
# The best swap of each plan: class i goes from j to k and class l from k to j.
#
# Device sizes stay, so it repairs what single moves can not.


def best_swap(batch: PlanBatch) -> tuple[Ints, Floats]:
    """The best exchange of two classes between the most uneven device and another, or of two origins of one class."""
    b, c, v, _ = batch.plan.shape
    rows = np.arange(b)
    # What all swaps of the most uneven devices share: twice G of each device, and its change by a class less or more.
    x = batch.plan.sum(2).astype(float)
    mass = x.sum(1)
    now = pieces(x, mass)
    minus, plus, total_now = pieces(np.maximum(x - 1.0, 0.0), mass) - now, pieces(x + 1.0, mass) - now, now.sum(1)
    uneven = divergence(total_now, mass)
    worst = uneven.argmax(1)
    # [B, i, l] DI of the worst device after class i left it and class l came
    first = _imbalance_after_swap(total_now[rows, worst], minus[rows, :, worst], plus[rows, :, worst], mass[rows, worst])
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
        # The largest DI after class i goes from worst to other and class l comes back, [B, i, l]; sizes stay.
        second = _imbalance_after_swap(total_now[:, other], plus[:, :, other], minus[:, :, other], mass[:, other])
        rest = uneven.copy()
        rest[rows, worst] = rest[:, other] = 0.0
        total += price(batch, np.maximum(np.maximum(first, second, out=second), rest.max(1)[:, None, None], out=second))
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


def _imbalance_after_swap(total: Floats, row: Floats, column: Floats, mass: Floats) -> Floats:
    """DI of one device of each plan after one change by `row` [B, i] and one by `column` [B, l]; none where i = l."""
    pieces = (total[:, None] + row)[:, :, None] + column[:, None]
    same = np.arange(row.shape[1])
    pieces[:, same, same] = total[:, None]
    return divergence(pieces, mass[:, None, None])


# ---- bundles ------------------------------------------------------------------------------------------------------
# The best bundle of each plan: a share of every class that j holds goes to k at once.
#
# A single sample spoils the evenness of the device that it leaves and of the one that it joins, so that moves stop where much
# time could still be won by moving samples of all classes together.

SHARES = (1.0, 0.5, 0.25, 0.125, 0.0625)


def best_bundle(batch: PlanBatch) -> tuple[Ints, Floats]:
    """The best bundle of each plan, as a change of the plan, and the objective after it."""
    b, _, v, _ = batch.plan.shape
    x = batch.plan.sum(2)  # [B, c, V]
    sizes = np.stack([*(np.rint(share * x).astype(np.int64) for share in SHARES), np.minimum(x, 1)], 1)  # [B, F, c, V]
    rows = np.arange(b)
    best_value, best_change = np.full(b, np.inf), np.zeros_like(batch.plan)
    costs, latency = sample_costs(batch), latencies(batch.plan.sum(1).astype(float), batch.effort, batch.links)
    for j in range(v):
        wanted = sizes[..., j]  # [B, F, c]
        sent = _choose_samples(batch, wanted, j)
        # max + std of latencies after these samples of each sender went from j to k.
        shift = np.einsum("bfkv,dbvk->dbfk", sent.sum(3), costs - costs[..., j, None])
        total = spread_time(batch, latency.T[:, :, None, None] + shift)
        total = total + price(batch, _imbalances(x.astype(float), wanted, j))  # [B, F, k]
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


def _imbalances(x: Floats, wanted: Ints, j: int) -> Floats:
    """The largest DI after such bundles left j for each k, [B, F, k]."""
    sender = unevenness((x[:, None, :, j] - wanted)[..., None])  # [B, F, 1]
    receiver = unevenness(x[:, None] + wanted[..., None])  # [B, F, k]
    others = np.broadcast_to(unevenness(x)[:, None], (len(x), x.shape[2], x.shape[2])).copy()  # [B, k, V]
    others[:, np.arange(x.shape[2]), np.arange(x.shape[2])] = 0.0
    others[:, :, j] = 0.0
    return np.maximum(np.maximum(sender, receiver), others.max(2)[:, None])


# ---- descent ------------------------------------------------------------------------------------------------------

_STREAK = 3  # so many moves in a row that helped before more samples move at once
_CALL = 8000.0  # what looking at a table costs beside its entries, in entries
_SWAP = 4.0  # an entry of a table of swaps, in those of a table of moves
_BUNDLE = 2.0
_CACHED = 12_000  # entries of the tables of swaps that are looked at together: few enough for the processor's cache


@dataclass(frozen=True, slots=True)
class Descent:
    """Where descents ended: plans, objectives, and the work that each took, in entries of the tables looked at."""

    plan: Ints  # [B, c, V, V]
    value: Floats  # [B]
    work: Floats  # [B]


def descend(batch: PlanBatch, *, moves_only: bool = False, steps: int | None = None, work: float = np.inf) -> Descent:
    """Best-improvement descent by moves; where none helps by swaps, and where no swap helps by bundles.

    A plan that improves again and again moves twice as many samples at once, and half as many where that fails, so that many
    samples of a class cost few steps. It stops where nothing helps, after so many `steps`, or when its `work` is spent: a
    count and no clock, so that every machine finds the same plan, in whatever company it descends.
    """
    plan, value = batch.plan.copy(), objectives(batch)
    b, c, v, _ = plan.shape
    size, streak, spent = np.ones(b, np.int64), np.zeros(b, np.int64), np.zeros(b)
    active = np.arange(b)
    for _ in count() if steps is None else range(steps):
        active = active[spent[active] < work]
        if not len(active):
            break
        change, new = best_move(take_plans(replace(batch, plan=plan), active), size[active])
        good = _apply_improvements(plan, value, active, change, new)
        stuck = active[~good & (size[active] == 1)]
        streak[active] = np.where(good, streak[active] + 1, 0)
        grown = size[active] << (streak[active] == _STREAK)
        streak[active] %= _STREAK
        size[active] = np.where(good, grown, np.maximum(size[active] // 2, 1))
        spent[active] += _CALL + c * v**3
        active = np.setdiff1d(active, stuck)
        if not moves_only and len(stuck):
            freed = _apply_best_steps(batch, plan, value, stuck, best_swap, max(1, _CACHED // c**2))
            spent[stuck] += v * (_CALL + _SWAP * c**2)
            stuck = np.setdiff1d(stuck, freed)
            more = _apply_best_steps(batch, plan, value, stuck, best_bundle, b)
            spent[stuck] += v * (_CALL + _BUNDLE * len(SHARES) * c * v**2)
            active = np.sort(np.concatenate([active, freed, more]))
    return Descent(plan, value, spent)


Step = Callable[[PlanBatch], tuple[Ints, Floats]]


def _apply_best_steps(batch: PlanBatch, plan: Ints, value: Floats, stuck: Ints, best: Step, few: int) -> Ints:
    """Carry out, in place, the best steps of these plans, so many at a time; whose helped."""
    helped = [np.empty(0, np.int64)]
    for some in (stuck[k : k + few] for k in range(0, len(stuck), few)):
        change, new = best(take_plans(replace(batch, plan=plan), some))
        helped.append(some[_apply_improvements(plan, value, some, change, new)])
    return np.concatenate(helped)


def _apply_improvements(plan: Ints, value: Floats, index: Ints, change: Ints, new: Floats) -> NDArray[np.bool_]:
    """Carry out, in place, the changes that help; which did."""
    good = new < value[index] * (1.0 - 1e-12)
    plan[index[good]] += change[good]
    value[index[good]] = new[good]
    return good
