"""Whole-sample plans improved step by step on the true objective, many plans at once: by moves, then swaps, then bundles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from numpy.typing import NDArray

from fedfleet.shuffle.bundles import SHARES, best_bundle
from fedfleet.shuffle.divergence import Floats, Ints
from fedfleet.shuffle.moves import best_move
from fedfleet.shuffle.plan_batch import PlanBatch, objectives, take_plans
from fedfleet.shuffle.swaps import best_swap

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
