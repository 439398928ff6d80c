"""Following the central path of the relaxed problem, every problem of a stack at its own pace."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedfleet.shuffle.divergence import Floats
from fedfleet.shuffle.newton_step import NewtonStep, Point, barrier_value, is_inside, newton_step, point_at, time_weights
from fedfleet.shuffle.problem_batch import RelaxedProblems, relaxed_value, rescale_time, start_point, take_problems

CENTRED_DECREMENT = 1.0  # a decrement below which the path may be followed further
WARM_GAP = 3e-2  # the gap from which paths for other t may start
FINAL_DECREMENT = 1e-4  # at the last mu, where multipliers are wanted: they err by the root of this
_FACTOR = 0.15  # how far ahead a step along the path aims
_LAST_STEPS = 7  # rounding errors may keep the decrement from falling further
_MOST_STEPS = 250
_CALL, _ENTRY = 3e4, 3.0  # work of a step beside its entries, and of each


@dataclass(frozen=True, slots=True)
class Path:
    """Where each problem's path ended: plan, t, the multipliers that certify it, and the steps it took."""

    plan: Floats  # [B, c, V, V]
    t: Floats  # [B]
    weights: Floats  # [B, V] y of the latencies
    prices: Floats  # [B, V] lambda of G(x_v) <= t N_v
    slope: Floats  # [B, c, V] gradient of G
    raised: Floats  # [B, V] multiplier of N_v >= floor
    steps: int
    work: float  # in entries of the tables of moves that take as long (`local_search`)


def follow_path(
    stack: RelaxedProblems,
    *,
    gap: float | Floats = 1e-4,
    first: float | Floats | None = None,
    settle: float = FINAL_DECREMENT,
    begin: tuple[Floats, Floats] | None = None,
) -> Path:
    """Minimise each relaxed problem until its duality gap is about `gap` of the stack's unit of time.

    Centring steps until the decrement is small, then one along the path's tangent, and so on; `settle` is the decrement
    to reach at the last mu: `FINAL_DECREMENT` where multipliers are wanted, `CENTRED_DECREMENT` for a plan alone. Without a `first`
    gap it is what the beginning costs, for where that is a hundred units, a path from one unit on would crawl.
    """
    plan, t = start_point(stack) if begin is None else begin
    if first is None:
        first = np.maximum(relaxed_value(stack, plan) / stack.unit, 1.0)
    # mu at both ends of the paths: gaps divided by the number of barriers.
    terms = (stack.supply > 0.0).sum((1, 2)) * stack.open.sum(1) + 3 * stack.open.sum(1)
    mu, last = first / terms, gap / terms
    final = [np.array(plan), np.array(t), np.array(mu)]
    index, here, at = np.arange(len(t)), stack, point_at(stack, plan, t)
    beta, waited = np.ones(len(t)), np.zeros(len(t), np.int64)
    steps, work = 0, 0.0
    while len(index):
        steps += 1
        work += _CALL + _ENTRY * len(index) * plan[0].size * plan.shape[2]
        step = newton_step(here, at, mu, beta)
        at, moved = _advance(here, at, step, mu, beta)
        off = np.where(beta < 1.0, np.inf, np.abs(step.decrement))
        mu = np.maximum(mu * (1.0 - moved * (1.0 - beta)), last)
        ending = mu <= last * 1.01
        waited += ending
        done = (ending & (off < settle)) | (waited >= _LAST_STEPS) | (steps >= _MOST_STEPS) | (moved == 0.0)
        beta = np.where((off < CENTRED_DECREMENT) & ~ending, np.maximum(_FACTOR, last / mu), 1.0)
        if done.any():
            for kept, now in zip(final, (at.plan, at.t, mu), strict=True):
                kept[index[done]] = now[done]
            left = ~done
            index, mu, last, waited, beta, here = (
                index[left], mu[left], last[left], waited[left], beta[left], take_problems(here, left),
            )  # fmt: skip
            at = point_at(here, at.plan[left], at.t[left])
    return replace(_path_end(stack, *final), steps=steps, work=work)


def warm_up(stack: RelaxedProblems) -> tuple[RelaxedProblems, Path]:
    """The first part of the paths, and the stack in units near the optima, which can be a thousandth of the proportional plan's."""
    first: float | Floats | None = None
    begin = None
    while True:
        path = follow_path(stack, gap=WARM_GAP, first=first, settle=CENTRED_DECREMENT, begin=begin)
        share = np.minimum(relaxed_value(stack, path.plan) / stack.unit, 1.0)
        if (share > 0.5).all():
            return stack, path
        stack, first, begin = rescale_time(stack, share), WARM_GAP / share, (path.plan, path.t)


def _advance(stack: RelaxedProblems, at: Point, step: NewtonStep, mu: Floats, beta: Floats) -> tuple[Point, Floats]:
    """Along the step: at most 0.95 of the way to the wall, then shorter until Phi falls (centring) or all is inside."""
    positive = np.where(at.plan > 0.0, at.plan, 1.0)
    size = np.minimum(1.0, 0.95 / np.maximum((-step.plan / positive).max((1, 2, 3)), 1e-300))
    ahead = beta < 1.0
    centring = not ahead.all()
    value = barrier_value(stack, at, mu) if centring else size
    fall = 0.01 * np.maximum(step.decrement, 0.0)
    noise = np.where(np.isfinite(value) & (step.decrement < 1e-3), 1e-9 * np.abs(value), 0.0)
    least = 0.05 * beta[:, None] * at.slack
    bad = np.ones(len(mu), bool)
    for _ in range(25):
        new = point_at(stack, at.plan + size[:, None, None, None] * step.plan, at.t + size * step.t)
        bad = (new.slack < least).any(1) | ~is_inside(stack, new)
        if centring:
            bad = np.where(ahead, bad, ~(barrier_value(stack, new, mu) <= value - size * fall + noise))
        if not bad.any():
            return new, size
        size = np.where(bad, size * np.where(ahead, 0.8, 0.5), size)
    size = np.where(bad, 0.0, size)
    return point_at(stack, at.plan + size[:, None, None, None] * step.plan, at.t + size * step.t), size


def _path_end(stack: RelaxedProblems, plan: Floats, t: Floats, mu: Floats) -> Path:
    """Ends of the paths with their multipliers, rows rescaled to keep their sums to the last digit."""
    sums = plan.sum(3, keepdims=True)
    plan = plan * np.where(sums > 0.0, stack.supply[..., None] / np.where(sums > 0.0, sums, 1.0), 0.0)
    at = point_at(stack, plan, t)
    m = mu[:, None]
    floored = stack.open & (stack.floor[:, None] > 0.0)
    held = np.where(floored, m / np.where(floored, at.mass - stack.floor[:, None], 1.0), 0.0)
    # Rounding may leave a path that ends a hair outside: a negative price would make a cut that does not hold.
    prices = np.where(stack.open & (at.slack > 0.0), m / np.where(at.slack > 0.0, at.slack, 1.0), 0.0)
    held = np.maximum(held, 0.0)
    return Path(plan, t, time_weights(stack, at.latency, mu), prices, at.slope, held, 0, 0.0)
