"""Whole plans: round what the relaxations of the weakest cases give, descend, shake, until the bound is near.

Where devices hold few samples of many classes the real optimum is out of reach, and rounding it can double the objective.
The relaxations that the bound needs anyway (`cases`) are the right places to round from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedfleet.core.rng import stream
from fedfleet.shuffle.bound import Case, Cuts, all_cases, case_bounds, cuts_of, join_cuts, restrict_to_cases
from fedfleet.shuffle.central_path import CENTRED_DECREMENT, WARM_GAP, follow_path
from fedfleet.shuffle.divergence import Floats, Ints
from fedfleet.shuffle.local_search import descend
from fedfleet.shuffle.plan_batch import PlanBatch, take_plans
from fedfleet.shuffle.plans import largest_remainder, round_plans, start_plans
from fedfleet.shuffle.problem import Problem, effort, link
from fedfleet.shuffle.problem_batch import RelaxedProblems
from fedfleet.shuffle.relaxation import Relaxed

GAP = 5e-3  # between plan and bound, at which the search ends
_GAP = 1e-3  # of the relaxed problems met on the way
_ROUNDS = 7
_PER_ROUND = 6
_KICKS = 16
# Work is counted, in entries of the tables that a descent looks at (about 10 ns each), since a clock would make plans differ.
_HEAT, DESCENT = 2e6, 6e6  # of one descent, while others may still win and afterwards
_WORK = 3e7  # of descents from cases, after which no more are tried
_PATHS = 4.2e7  # of paths, after which no further round begins
_SHAKE_WORK, _SHAKE_DESCENT_WORK = 4e7, 2e6  # of all shakes, and of one descent from a shaken plan
_LARGE_DEVICES, _LARGE_SAMPLES, _PATIENCE = 7, 3000, 4.0


@dataclass(frozen=True, slots=True)
class WholePlan:
    """The best whole plan found [c, V, V], its objective, and a bound for all whole plans (None: not asked for)."""

    plan: Ints
    objective: float
    bound: float | None
    work: float = 0.0  # that it took, in entries of tables


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


def best_whole(problem: Problem, plans: Floats, *, last: int = 3, steps: int = 64) -> WholePlan:
    """Round real plans [B, c, V, V] in two ways; all descend a while, the most promising by swaps too and to the end."""
    counts = np.broadcast_to(problem.counts.T, plans.shape[:3])
    batch = batch_of(problem, np.concatenate([largest_remainder(plans, counts), round_plans(plans, counts)]))
    return best_descent(batch, last=last, steps=steps)


def from_simple(problem: Problem, result: WholePlan, *, last: int = 3, steps: int = 64) -> WholePlan:
    """The better of a plan and the best that descents from the simple plans reach (`race`)."""
    plans = start_plans(problem).transpose(0, 2, 1, 3)
    whole = largest_remainder(plans, np.broadcast_to(problem.counts.T, plans.shape[:3]))
    other = best_descent(batch_of(problem, whole), last=last, steps=steps)
    return other if other.objective < result.objective else result


def from_cases(problem: Problem, stack: RelaxedProblems, result: WholePlan, *, cases: int = 4, steps: int = 64) -> WholePlan:
    """The better of a plan and what some cases, spread over all and solved roughly, round to."""
    every = all_cases(problem)
    some = [every[int(k)] for k in np.unique(np.linspace(0, len(every) - 1, cases).astype(int))]
    copies = restrict_to_cases(stack, some)
    path = follow_path(copies, gap=WARM_GAP, settle=CENTRED_DECREMENT)
    other = best_whole(problem, path.plan * copies.mass[:, None, None, None], last=1, steps=steps)
    return other if other.objective < result.objective else result


def best_descent(batch: PlanBatch, *, last: int = 3, steps: int = 64) -> WholePlan:
    """The best of descents from these plans: all take `steps`, twice the most promising go on, and `last` to the end."""
    end = descend(batch, moves_only=True, steps=steps, work=_HEAT)
    work = float(end.work.sum())
    for kept, most in ((2 * last, _HEAT), (last, DESCENT * patience(batch.plan[0]))):
        few = np.argsort(end.value, kind="stable")[:kept]
        batch = take_plans(replace(batch, plan=end.plan), few)
        end = descend(batch, work=most)
        work += float(end.work.sum())
    k = int(end.value.argmin())
    return WholePlan(end.plan[k], float(end.value[k]), None, work)


def patience(plan: Ints) -> float:
    """How many times the usual work a user with such a plan [c, V, V] may cost: large ones may take longer."""
    return _PATIENCE if plan.shape[1] >= _LARGE_DEVICES or plan.sum() > _LARGE_SAMPLES else 1.0


def improve_and_bound(problem: Problem, relaxed: Relaxed, result: WholePlan, *, gap: float = GAP) -> WholePlan:
    """Solve the weakest cases first, rounding each, until the bound is within `gap` of the best plan or the work is done."""
    stack, cases = relaxed.stack, all_cases(problem)
    now = _Search(relaxed.cuts, result, frozenset(), 0.0, 0.0)
    bounds = np.array([relaxed.bound or 0.0])
    last = (0.0, np.inf, len(cases) + 1)
    for _ in range(_ROUNDS):
        enough = now.best.objective * (1.0 - gap)
        bounds, weakest = case_bounds(stack, cases, now.cuts, enough=enough)
        weak = np.flatnonzero(bounds < enough)
        state = (float(bounds.min()), now.best.objective, len(weak))
        # A round that raised no bound, lowered no plan and settled no case: the next would not either.
        idle = state[0] < last[0] * 1.0002 and state[1:] == last[1:]
        if not len(weak) or idle or now.work > _PATHS * patience(result.plan):
            break
        last = state
        order = [int(k) for k in weak[np.argsort(bounds[weak], kind="stable")]]
        now = _round(problem, stack, cases, order, weakest, now)
    result = now.best
    if bounds.min() < result.objective * (1.0 - gap):
        result = shake(problem, result, float(bounds.min()), gap=gap)
        bounds, _ = case_bounds(stack, cases, now.cuts, enough=result.objective)
    return replace(result, bound=min(max(float(bounds.min()), relaxed.bound or 0.0), result.objective))


@dataclass(frozen=True, slots=True)
class _Search:
    """What is known after some rounds: cuts, the best plan, which cases were solved; the work of paths and of descents."""

    cuts: Cuts
    best: WholePlan
    solved: frozenset[int]
    work: float
    tried: float


def _round(problem: Problem, stack: RelaxedProblems, cases: list[Case], order: list[int], weakest: Floats, now: _Search) -> _Search:
    """Cuts and plans from the weakest cases that are new, cuts at the weakest t of those that are not."""
    fresh = _pick_cases([k for k in order if k not in now.solved])
    stale = [k for k in order[:_PER_ROUND] if k in now.solved]
    if fresh:
        copies = restrict_to_cases(stack, [cases[k] for k in fresh])
        path = follow_path(copies, gap=_GAP)
        now = replace(now, solved=now.solved | frozenset(fresh))
        now = replace(now, cuts=join_cuts(now.cuts, cuts_of(copies, path)), work=now.work + path.work)
        if now.tried < _WORK * patience(now.best.plan):
            new = best_whole(problem, path.plan * copies.mass[:, None, None, None])
            best = new if new.objective < now.best.objective else now.best
            now = replace(now, best=best, tried=now.tried + new.work)
    if stale and now.work < _PATHS * patience(now.best.plan):
        copies = restrict_to_cases(stack, [cases[k] for k in stale], pinned=weakest[stale])
        path = follow_path(copies, gap=_GAP)
        now = replace(now, cuts=join_cuts(now.cuts, cuts_of(copies, path)), work=now.work + path.work)
    return now


def _pick_cases(fresh: list[int]) -> list[int]:
    """The weakest cases and some spread over the others, since neighbours share their cuts."""
    if len(fresh) <= _PER_ROUND:
        return fresh
    others = sorted(fresh[2:])
    picks = [others[int(k)] for k in np.linspace(0, len(others) - 1, _PER_ROUND - 2)]
    return sorted({*fresh[:2], *picks})


def shake(problem: Problem, result: WholePlan, bound: float, *, gap: float, attempts: int = 8) -> WholePlan:
    """Iterated local search: some samples of the best plan move at random, and all copies descend again."""
    spent = 0.0
    for attempt in range(attempts):
        if bound >= result.objective * (1.0 - gap) or spent > _SHAKE_WORK * patience(result.plan):
            break
        end = descend(batch_of(problem, _perturb(result.plan, attempt)), work=_SHAKE_DESCENT_WORK)
        spent += float(end.work.sum())
        k = int(end.value.argmin())
        if end.value[k] < result.objective:
            result = replace(result, plan=end.plan[k], objective=float(end.value[k]))
    return result


def _perturb(plan: Ints, attempt: int) -> Ints:
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
