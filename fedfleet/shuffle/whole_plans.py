"""Whole plans: round what the relaxations of the weakest cases give, descend, shake, until the bound is near.

Where devices hold few samples of many classes the real optimum is out of reach, and rounding it can double the objective.
The relaxations that the bound needs anyway (`cases`) are the right places to round from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedfleet.core.rng import stream
from fedfleet.shuffle.bound import Cuts, cuts_of, joined
from fedfleet.shuffle.central_path import follow
from fedfleet.shuffle.divergence import Floats, Ints
from fedfleet.shuffle.integer_bound import Case, all_cases, case_bounds, restricted
from fedfleet.shuffle.local_search import PlanBatch, descend, take_plans
from fedfleet.shuffle.problem import Problem, effort, link
from fedfleet.shuffle.relaxed import Relaxed
from fedfleet.shuffle.relaxed_problems import RelaxedProblems
from fedfleet.shuffle.rounding import largest_remainder, rounded

_GAP = 1e-3  # of the relaxed problems met on the way
_ROUNDS = 7
_PER_ROUND = 6
_KICKS = 16
_SHAKES = 8


@dataclass(frozen=True, slots=True)
class WholePlan:
    """The best whole plan found [c, V, V], its objective, and a bound for all whole plans (None: not asked for)."""

    plan: Ints
    objective: float
    bound: float | None


def batch_of(problem: Problem, plans: Ints) -> PlanBatch:
    """Whole plans [B, c, V, V] of one problem, ready to descend."""
    b, devices = len(plans), len(problem.counts)
    return PlanBatch(
        plans,
        np.broadcast_to(link(problem), (b, devices, devices)),
        np.broadcast_to(effort(problem), (b, devices)),
        np.full(b, problem.alpha),
        problem.time_balance,
        problem.js_root,
    )


def best_whole(problem: Problem, plans: Floats) -> WholePlan:
    """Round real plans [B, c, V, V] in two ways, descend from all by moves, from the best by swaps too."""
    counts = np.broadcast_to(problem.counts.T, plans.shape[:3])
    batch = batch_of(problem, np.concatenate([largest_remainder(plans, counts), rounded(plans, counts)]))
    plan, value = descend(batch, swaps=False)
    few = np.argsort(value, kind="stable")[:6]
    plan, value = descend(take_plans(replace(batch, plan=plan), few))
    k = int(value.argmin())
    return WholePlan(plan[k], float(value[k]), None)


def improve_and_bound(problem: Problem, relaxed: Relaxed, found: WholePlan, *, gap: float = 5e-3) -> WholePlan:
    """Solve the weakest cases first, rounding each, until the bound is within `gap` of the best plan or rounds run out."""
    stack = relaxed.stack
    cases = all_cases(problem)
    cuts, solved = relaxed.cuts, set[int]()
    bounds = np.array([relaxed.bound or 0.0])
    last = (0.0, np.inf)
    for _ in range(_ROUNDS):
        enough = found.objective * (1.0 - gap)
        bounds, weakest = case_bounds(stack, cases, cuts, enough=enough)
        weak = np.flatnonzero(bounds < enough)
        state = (float(bounds.min()), found.objective)
        if not len(weak) or (state[0] < last[0] * 1.0002 and state[1] == last[1]):
            break  # near enough, or a round that neither raised the bound nor lowered the plan
        last = state
        order = weak[np.argsort(bounds[weak], kind="stable")]
        fresh = _chosen([int(k) for k in order if int(k) not in solved])
        if fresh:
            cuts, found = _try_cases(problem, stack, [cases[k] for k in fresh], cuts, found)
            solved |= set(fresh)
        stale = [int(k) for k in order[:_PER_ROUND] if int(k) in solved and int(k) not in fresh]
        if stale:
            copies = restricted(stack, [cases[k] for k in stale], pinned=weakest[stale])
            cuts = joined(cuts, cuts_of(copies, follow(copies, gap=_GAP)))
    if bounds.min() < found.objective * (1.0 - gap):
        found = shake(problem, found, float(bounds.min()), gap=gap)
        bounds, _ = case_bounds(stack, cases, cuts, enough=found.objective)
    return replace(found, bound=min(max(float(bounds.min()), relaxed.bound or 0.0), found.objective))


def _try_cases(
    problem: Problem, stack: RelaxedProblems, cases: list[Case], cuts: Cuts, found: WholePlan
) -> tuple[Cuts, WholePlan]:
    """Solve the relaxations of some cases: their cuts, and the best of the plans found and rounded from them."""
    copies = restricted(stack, cases)
    path = follow(copies, gap=_GAP)
    new = best_whole(problem, path.plan * copies.mass[:, None, None, None])
    return joined(cuts, cuts_of(copies, path)), new if new.objective < found.objective else found


def _chosen(fresh: list[int]) -> list[int]:
    """The weakest cases and some spread over the others, since neighbours share their cuts."""
    if len(fresh) <= _PER_ROUND:
        return fresh
    others = sorted(fresh[2:])
    picks = [others[int(k)] for k in np.linspace(0, len(others) - 1, _PER_ROUND - 2)]
    return sorted({*fresh[:2], *picks})


def shake(problem: Problem, found: WholePlan, bound: float, *, gap: float) -> WholePlan:
    """Iterated local search: some samples of the best plan move at random, and all copies descend again."""
    for attempt in range(_SHAKES):
        if bound >= found.objective * (1.0 - gap):
            break
        kicked = _kicked(found.plan, attempt)
        plan, value = descend(batch_of(problem, kicked))
        k = int(value.argmin())
        if value[k] < found.objective:
            found = replace(found, plan=plan[k], objective=float(value[k]))
    return found


def _kicked(plan: Ints, attempt: int) -> Ints:
    """Copies of a plan with two to nine samples moved elsewhere, each."""
    rng = stream(0, "shuffle/shake", attempt)
    copies = np.repeat(plan[None], _KICKS, 0)
    devices = plan.shape[1]
    for copy in copies:
        for _ in range(rng.integers(2, 10)):
            places = np.argwhere(copy > 0)
            i, v, j = places[rng.integers(len(places))]
            copy[i, v, j] -= 1
            copy[i, v, rng.integers(devices)] += 1
    return copies
