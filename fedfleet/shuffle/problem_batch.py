"""Many relaxed problems of one shape side by side, in units that make their numbers near 1.

Plans are kept class first, [B, c, V, V] with [b, i, v, j] the class-i samples that v hands to j, so that every step of the
solver is a few operations on whole arrays, for one user or for hundreds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from fedfleet.shuffle.divergence import LARGEST, Floats, imbalance
from fedfleet.shuffle.problem import Problem, effort, latencies, link

_UNBOUNDED = -1.0  # a lower limit on t that never binds: t is positive


@dataclass(frozen=True, slots=True)
class RelaxedProblems:
    """B relaxed problems with their restrictions: each device at least `floor` samples, t from `low` up, closed devices."""

    supply: Floats  # [B, c, V] samples, in units of `mass`
    links: Floats  # [B, V, V] time in units of `unit` per `mass` samples
    effort: Floats  # [B, V]
    alpha: Floats  # [B] time per unit of imbalance
    floor: Floats  # [B] least samples on an open device
    low: Floats  # [B] least t
    pinned: Floats  # [B] the t that is fixed, or NaN where t is free
    open: NDArray[np.bool_]  # [B, V] who may receive
    least: Floats  # [B] JS of the user's totals, the least t that any plan can reach
    mass: Floats  # [B]
    unit: Floats  # [B]
    balanced: bool
    root: bool


def relaxed_problems(problems: Sequence[Problem]) -> RelaxedProblems:
    """Problems of equal shape and flags as one stack, without restrictions."""
    supply = np.stack([p.counts.T for p in problems]).astype(float)
    seconds = np.stack([effort(p) for p in problems])
    links = np.stack([link(p) for p in problems])
    alpha = np.array([p.alpha for p in problems])
    b, c, v = supply.shape
    least = imbalance(supply.sum(2)[:, :, None])[:, 0]
    shares = 1.0 / seconds
    shares /= shares.sum(1, keepdims=True)
    latency = latencies(supply.sum(1)[:, :, None] * shares[:, None, :], seconds, links)
    unit = latency.max(1) + latency.std(1) + alpha * least
    mass = supply.sum((1, 2)) / (c * v)
    scale = mass / unit
    nothing = np.zeros(b)
    one = problems[0]
    return RelaxedProblems(
        supply / mass[:, None, None], links * scale[:, None, None], seconds * scale[:, None], alpha / unit,
        nothing, nothing + _UNBOUNDED, nothing + np.nan, np.ones((b, v), bool), least, mass, unit,
        one.time_balance, one.js_root,
    )  # fmt: skip


def take_problems(stack: RelaxedProblems, index: NDArray[np.integer] | NDArray[np.bool_]) -> RelaxedProblems:
    """Some of the problems, in the order of `index`; an index may repeat."""
    rows = {f.name: getattr(stack, f.name)[index] for f in fields(stack) if f.name not in ("balanced", "root")}
    return replace(stack, **rows)


def rescale_time(stack: RelaxedProblems, share: Floats) -> RelaxedProblems:
    """The same problems with `share` of the old unit of time as the new one."""
    links, seconds = stack.links / share[:, None, None], stack.effort / share[:, None]
    return replace(stack, links=links, effort=seconds, alpha=stack.alpha / share, unit=stack.unit * share)


def price(stack: RelaxedProblems, t: Floats) -> tuple[Floats, Floats, Floats]:
    """What imbalance t costs, with first and second derivative: alpha t, or alpha sqrt(t) where the root is asked for."""
    if not stack.root:
        return stack.alpha * t, stack.alpha, np.zeros_like(t)
    t = np.maximum(t, 1e-12)  # the root's slope is infinite at 0
    root = np.sqrt(t)
    return stack.alpha * root, 0.5 * stack.alpha / root, -0.25 * stack.alpha / (root * t)


def relaxed_value(stack: RelaxedProblems, plan: Floats) -> Floats:
    """Eq. (7) of each plan, in seconds; a closed device pays the DI of an empty one through `low`."""
    latency = latencies(plan.sum(1), stack.effort, stack.links)
    uneven = np.where(stack.open, imbalance(plan.sum(2)), 0.0).max(1)
    uneven = np.maximum(uneven, stack.low)
    return (latency.max(1) + stack.balanced * latency.std(1) + price(stack, uneven)[0]) * stack.unit


def start_point(stack: RelaxedProblems) -> tuple[Floats, Floats]:
    """A strictly feasible point: shares by speed, raised where `floor` asks for more, and t a tenth of the way up."""
    total = stack.supply.sum((1, 2))
    open_ = stack.open.astype(float)
    fast = open_ / stack.effort
    fast /= fast.sum(1, keepdims=True)
    even = open_ / open_.sum(1, keepdims=True)
    want = 0.5 * (stack.floor / total + even.max(1))[:, None] * open_  # halfway between the floor and an even share
    short = np.maximum(want - fast, 0.0).max(1, keepdims=True) > 0.0
    need = np.where(stack.floor[:, None] > 0.0, want, 0.0)
    gap = np.where(open_ > 0.0, (need - fast) / np.maximum(even - fast, 1e-12), 0.0)
    mix = np.clip(np.where(short & (need > fast), gap, 0.0).max(1, keepdims=True), 0.0, 1.0)
    shares = (1.0 - mix) * fast + mix * even
    base = np.maximum(stack.least, stack.low)
    t = base + 0.1 * (LARGEST - base)
    t = np.where(np.isnan(stack.pinned), t, stack.pinned)
    return stack.supply[:, :, :, None] * shares[:, None, None, :], t
