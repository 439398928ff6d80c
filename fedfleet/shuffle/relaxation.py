"""The relaxed optimum, samples divisible at will, and a certificate: a number that no plan can beat.

The joint path over (T, t) finds a point that is a local optimum (no other has ever been seen); that it is global, within the
gap, is what `certify` shows: cuts at a few fixed t, where the problem is convex, and their concavity in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedfleet.shuffle.bound import Cuts, cut_values, cuts_of, join_cuts
from fedfleet.shuffle.central_path import CENTRED_DECREMENT, WARM_GAP, Path, follow_path, warm_up
from fedfleet.shuffle.divergence import LARGEST, Floats
from fedfleet.shuffle.newton_step import point_at
from fedfleet.shuffle.plans import identity, proportional
from fedfleet.shuffle.problem import Problem, score
from fedfleet.shuffle.problem_batch import RelaxedProblems, price, relaxed_problems, relaxed_value, start_point, take_problems

_CUT_GAP = 1e-4  # where multipliers are still exact in double precision
_PLAN_GAP = 5e-6
_ROUGH_GAP = 3e-3
_PIN_GAP = 3e-4
_CLEARLY = 1.005
_FIRST = 0.3
_ROUNDS = 7


@dataclass(frozen=True, slots=True)
class Relaxed:
    """A relaxed plan [V, c, V] with its objective, and a lower bound on every plan's objective (None: not asked for)."""

    plan: Floats
    objective: float
    bound: float | None
    cuts: Cuts
    stack: RelaxedProblems


def solve_relaxed(problem: Problem, *, certificate: bool = True, gap: float = 2e-3) -> Relaxed:
    """The least Eq. (7) over real plans; with a certificate whose relative gap is below `gap` where precision allows."""
    stack = relaxed_problems([problem])
    stack, warm, path, plans = relaxed_paths(stack)
    plan, value = best_plan(problem, plans[0])
    if not certificate:
        return Relaxed(plan, value, None, cuts_of(stack, path), stack)
    cuts, bound = certify(stack, path, warm, best=value, gap=gap)
    return Relaxed(plan, value, min(bound, value), cuts, stack)


def relaxed_paths(stack: RelaxedProblems) -> tuple[RelaxedProblems, Floats, Path, Floats]:
    """The stack in better units, plans from mid-path, paths with good multipliers, and final plans [B, c, V, V] in samples."""
    stack, middle = warm_up(stack)
    path = follow_path(stack, gap=_CUT_GAP, first=WARM_GAP, begin=(middle.plan, middle.t))
    end = follow_path(stack, gap=_PLAN_GAP, first=_CUT_GAP, settle=CENTRED_DECREMENT, begin=(path.plan, path.t))
    better = relaxed_value(stack, end.plan) <= relaxed_value(stack, path.plan)
    plan = np.where(better[:, None, None, None], end.plan, path.plan)
    return stack, middle.plan, path, plan * stack.mass[:, None, None, None]


def best_plan(problem: Problem, plan: Floats) -> tuple[Floats, float]:
    """The solver's plan [c, V, V] as [V, c, V], unless keeping everything or sharing by speed is better."""
    plans: Sequence[Floats] = (plan.transpose(1, 0, 2), proportional(problem), identity(problem).astype(float))
    values = [score(problem, p).objective for p in plans]
    k = int(np.argmin(values))
    return plans[k], values[k]


def certify(stack: RelaxedProblems, path: Path, warm: Floats, *, best: float, gap: float) -> tuple[Cuts, float]:
    """A lower bound over all t from `least` to ln 2, in seconds, and the cuts that prove it.

    Between two knots every cut plus the price of t is concave, so it is at least its smaller end; the best cut counts.
    Runs of intervals below the target get new cuts inside, and a knot in the middle where only the grid is too coarse.
    """
    target = best * (1.0 - gap) / float(stack.unit[0])
    cuts, at = cuts_of(stack, path), float(path.t[0])
    least = float(stack.least[0])
    left, right = at - (at - least) * np.geomspace(0.02, 1.0, 12), at + (LARGEST - at) * np.geomspace(1e-3, 1.0, 36)
    knots = np.unique(np.clip(np.concatenate([[least, at, LARGEST], left, right]), least, LARGEST))  # dense around the optimum
    values = cut_values(cuts, knots) + price(stack, knots)[0]
    tried = np.empty(0)
    for _ in range(_ROUNDS):
        bad = interval_bounds(values) < target
        if not bad.any():
            break
        weak = values.max(0) < target
        coarse = 0.5 * (knots[:-1] + knots[1:])[bad & ~weak[:-1] & ~weak[1:]]
        nearest = knots[0] + max(0.02 * (at - knots[0]), 1e-6)  # at the least t itself nothing lies strictly inside
        # Up to three new cuts inside each run of knots that no cut lifts above the target.
        edges = np.flatnonzero(np.diff(np.concatenate([[0], weak.astype(int), [0]])))
        runs = zip(edges[::2], edges[1::2], strict=True)
        pins = [knots[a + np.unique(np.linspace(0, z - a - 1, 5).astype(int)[1:4])] for a, z in runs]
        pins = np.setdiff1d(np.maximum(np.concatenate([*pins, coarse[:2]]), nearest), tried)
        if not len(pins):
            break  # what was solved there already can not be raised by solving it again
        tried = np.concatenate([tried, pins])
        extra = pinned_cuts(stack, pins, target=target, warm=warm)
        cuts = join_cuts(cuts, extra)
        values = np.concatenate([values, cut_values(extra, knots) + price(stack, knots)[0]])
        added = np.concatenate([values, cut_values(cuts, coarse) + price(stack, coarse)[0]], 1)
        order = np.argsort(np.concatenate([knots, coarse]), kind="stable")
        knots, values = np.concatenate([knots, coarse])[order], added[:, order]
    return cuts, float(interval_bounds(values).min() * stack.unit[0])


def interval_bounds(values: Floats) -> Floats:
    """The best cut's smaller end value on each interval between knots; values [K, G] of concave functions."""
    return np.minimum(values[:, :-1], values[:, 1:]).max(0)


def pinned_cuts(stack: RelaxedProblems, t: Floats, *, target: float, warm: Floats) -> Cuts:
    """Cuts from solving the convex problems at fixed t: roughly first, on where they are not above the target by then."""
    copies = replace(take_problems(stack, np.zeros(len(t), np.int64)), pinned=t)
    begin = _warm_start(copies, warm)
    # Far from the best t a plan can cost hundreds of units: such a path begins far up, and its gap may be as much wider.
    far = np.maximum(relaxed_value(copies, begin[0]) / copies.unit, 1.0)
    rough = _ROUGH_GAP * far
    path = follow_path(copies, gap=rough, first=_FIRST * far, begin=begin)
    cuts = cuts_of(copies, path)
    left = np.flatnonzero((np.diag(cut_values(cuts, t)) + price(stack, t)[0]) < target * _CLEARLY)
    if not len(left):
        return cuts
    rest = take_problems(copies, left)
    end = follow_path(rest, gap=_PIN_GAP, first=rough[left], begin=(path.plan[left], path.t[left]))
    return join_cuts(cuts, cuts_of(rest, end))


def _warm_start(copies: RelaxedProblems, warm: Floats) -> tuple[Floats, Floats]:
    """A plan from the middle of the joint path, mixed with the proportional one as far as each pinned t asks for."""
    shared, t = start_point(copies)
    room = point_at(copies, shared, t).slack
    mix = np.zeros(len(t))
    while True:
        plan = warm + mix[:, None, None, None] * (shared - warm)
        bad = (point_at(copies, plan, t).slack < 0.3 * room).any(1) & (mix < 1.0)
        if not bad.any():
            return plan, t
        mix = np.where(bad, np.minimum(1.0, mix + 0.1), mix)
