"""One user's plan, or a whole round's: relax, certify, make whole, never worse than doing nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedfleet.core.rng import stream
from fedfleet.shuffle.bound import all_cases, case_bounds, cuts_of, join_cuts, restrict_to_cases
from fedfleet.shuffle.central_path import CENTRED_DECREMENT, WARM_GAP, follow_path, warm_up
from fedfleet.shuffle.divergence import Floats, Ints
from fedfleet.shuffle.local_search import descend
from fedfleet.shuffle.plans import (
    PlanBatch,
    identity,
    largest_remainder,
    objectives,
    proportional,
    round_plans,
    start_plans,
    take_plans,
)
from fedfleet.shuffle.problem import PlanScore, Problem, effort, link, score
from fedfleet.shuffle.problem_batch import RelaxedProblems, relaxed_problems, take_problems
from fedfleet.shuffle.relaxation import Relaxed, best_plan, solve_relaxed

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
_QUICK_GAP = 1e-3
_NEAR = 1.08  # times the relaxed optimum: a quick plan within it is good enough
_STEPS = 32  # of quick descents before they are compared
_CHUNK_ENTRIES = 40_000  # plan entries solved side by side: few enough to stay in the processor's cache


@dataclass(frozen=True, slots=True)
class Solution:
    """A whole plan[v][i][j]; `bound` holds for every plan, `integer_bound` for every whole plan (None: quick left them out)."""

    plan: Ints
    score: PlanScore
    relaxed: float
    bound: float | None
    integer_bound: float | None
    relaxed_plan: Floats


def solve(problem: Problem, *, quick: bool = False) -> Solution:
    """The best exchange of samples that we can find for one user; `quick` leaves out the bounds, and most of the search.

    How long it searches is counted in work and not in seconds: the answer is a function of the problem alone.

    >>> from fedfleet.shuffle.problem import problem_from
    >>> user = problem_from({"counts": [[6, 0], [0, 6]], "seconds_per_sample": [0.1, 0.1], "up_bps": [1e9, 1e9],
    ...                      "down_bps": [1e9, 1e9], "bits_per_sample": 8e3, "alpha": "auto"})
    >>> solve(user).plan.sum(0).tolist()
    [[3, 3], [3, 3]]
    """
    if len(problem.counts) == 1:
        return _solve_single_device(problem)
    relaxed = solve_relaxed(problem, certificate=not quick)
    whole = best_whole(problem, relaxed.plan.transpose(1, 0, 2)[None])
    if quick:
        simple = _simple_plans([problem])[:, 0]
        values = objectives(batch_of(problem, simple))
        if values.min() < whole.objective:
            whole = WholePlan(simple[values.argmin()], float(values.min()), None)
        whole = _improve(problem, relaxed.stack, whole, relaxed.objective)
    else:
        if whole.objective * (1.0 - GAP) > (relaxed.bound or 0.0):
            whole = from_simple(problem, whole)
        whole = improve_and_bound(problem, relaxed, whole)
    plan = whole.plan.transpose(1, 0, 2)
    return Solution(plan, score(problem, plan), relaxed.objective, relaxed.bound, whole.bound, relaxed.plan)


def solve_many(problems: Sequence[Problem], *, quick: bool = True) -> list[Solution]:
    """Plans for many users, in their order; users of one shape are solved side by side, at a cost linear in users."""
    if not quick:
        return [solve(p) for p in problems]
    groups: dict[tuple[int, int, bool, bool], list[int]] = {}
    for k, p in enumerate(problems):
        devices, classes = p.counts.shape
        groups.setdefault((devices, classes, p.time_balance, p.js_root), []).append(k)
    result: dict[int, Solution] = {}
    for (v, c, _, _), members in groups.items():
        chunk = max(1, _CHUNK_ENTRIES // (c * v**2))
        for at in range(0, len(members), chunk):
            some = members[at : at + chunk]
            result |= zip(some, _solve_batch([problems[k] for k in some]), strict=True)
    return [result[k] for k in range(len(problems))]


def _solve_batch(problems: list[Problem]) -> list[Solution]:
    """Quick plans for users of one shape."""
    if len(problems[0].counts) == 1:
        return [_solve_single_device(p) for p in problems]
    stack = relaxed_problems(problems)
    stack, middle = warm_up(stack)
    path = follow_path(stack, gap=_QUICK_GAP, first=WARM_GAP, settle=CENTRED_DECREMENT, begin=(middle.plan, middle.t))
    plans = path.plan * stack.mass[:, None, None, None]
    counts = np.stack([p.counts.T for p in problems])
    batch = PlanBatch(
        round_plans(plans, counts), np.stack([link(p) for p in problems]), np.stack([effort(p) for p in problems]),
        np.array([p.alpha for p in problems]), stack.balanced, stack.root,
    )  # fmt: skip
    starts = (batch, replace(batch, plan=largest_remainder(plans, counts)))
    one, two = (descend(some, work=DESCENT) for some in starts)
    whole = np.where((two.value < one.value)[:, None, None, None], two.plan, one.plan)
    value = np.minimum(one.value, two.value)
    for other in _simple_plans(problems):
        cost = objectives(replace(batch, plan=other))
        better = cost < value
        whole[better], value[better] = other[better], cost[better]
    solutions: list[Solution] = []
    for k, (p, real, result, cost) in enumerate(zip(problems, plans, whole, value.tolist(), strict=True)):
        best, relaxed = best_plan(p, real)
        plan = _improve(p, take_problems(stack, np.array([k])), WholePlan(result, cost, None), relaxed).plan.transpose(1, 0, 2)
        solutions.append(Solution(plan, score(p, plan), relaxed, None, None, best))
    return solutions


def _simple_plans(problems: list[Problem]) -> Ints:
    """Keeping everything, and sharing by speed, in whole samples: [2, B, c, V, V]."""
    counts = np.stack([p.counts.T for p in problems])
    own = np.stack([identity(p) for p in problems]).transpose(0, 2, 1, 3)
    shared = np.stack([proportional(p) for p in problems]).transpose(0, 2, 1, 3)
    return np.stack([own, largest_remainder(shared, counts)])


def _improve(problem: Problem, stack: RelaxedProblems, result: WholePlan, relaxed: float) -> WholePlan:
    """A quick plan, searched for further only where it lies clearly above the relaxed optimum, which no plan can beat."""
    if result.objective > _NEAR * relaxed:
        result = from_simple(problem, result, last=1, steps=_STEPS)
    if result.objective > _NEAR * relaxed:
        result = from_cases(problem, stack, result, steps=_STEPS)
    return shake(problem, result, relaxed, gap=1.0 - 1.0 / _NEAR, attempts=1)


def _solve_single_device(problem: Problem) -> Solution:
    """One device has nobody to exchange with: the identity is the only plan, and the optimum."""
    plan = identity(problem)
    value = score(problem, plan)
    return Solution(plan, value, value.objective, value.objective, value.objective, plan.astype(float))


# ---- whole plans --------------------------------------------------------------------------------------------------
# Round what the relaxations of the weakest cases give, descend, shake, until the bound is near.
#
# Where devices hold few samples of many classes the real optimum is out of reach, and rounding it can double the objective.
# The relaxations that the bound needs anyway (`all_cases`) are the right places to round from.


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
    links, seconds = np.broadcast_to(link(problem), (b, devices, devices)), np.broadcast_to(effort(problem), (b, devices))
    return PlanBatch(plans, links, seconds, np.full(b, problem.alpha), problem.time_balance, problem.js_root)


def best_whole(problem: Problem, plans: Floats, *, last: int = 3, steps: int = 64) -> WholePlan:
    """Round real plans [B, c, V, V] in two ways; all descend a while, the most promising by swaps too and to the end."""
    counts = np.broadcast_to(problem.counts.T, plans.shape[:3])
    batch = batch_of(problem, np.concatenate([largest_remainder(plans, counts), round_plans(plans, counts)]))
    return best_descent(batch, last=last, steps=steps)


def from_simple(problem: Problem, result: WholePlan, *, last: int = 3, steps: int = 64) -> WholePlan:
    """The better of a plan and the best that descents from the simple plans reach."""
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
        batch = take_plans(replace(batch, plan=end.plan), np.argsort(end.value, kind="stable")[:kept])
        end = descend(batch, work=most)
        work += float(end.work.sum())
    k = int(end.value.argmin())
    return WholePlan(end.plan[k], float(end.value[k]), None, work)


def patience(plan: Ints) -> float:
    """How many times the usual work a user with such a plan [c, V, V] may cost: large ones may take longer."""
    return _PATIENCE if plan.shape[1] >= _LARGE_DEVICES or plan.sum() > _LARGE_SAMPLES else 1.0


def improve_and_bound(problem: Problem, relaxed: Relaxed, result: WholePlan, *, gap: float = GAP) -> WholePlan:
    """Solve the weakest cases first, rounding each, until the bound is within `gap` of the best plan or the work is done."""
    stack, cases, many = relaxed.stack, all_cases(problem), patience(result.plan)
    cuts, solved, work, tried = relaxed.cuts, set[int](), 0.0, 0.0  # the work of paths, and that of descents
    bounds = np.array([relaxed.bound or 0.0])
    last = (0.0, np.inf, len(cases) + 1)
    for _ in range(_ROUNDS):
        enough = result.objective * (1.0 - gap)
        bounds, weakest = case_bounds(stack, cases, cuts, enough=enough)
        weak = np.flatnonzero(bounds < enough)
        state = (float(bounds.min()), result.objective, len(weak))
        # A round that raised no bound, lowered no plan and settled no case: the next would not either.
        idle = state[0] < last[0] * 1.0002 and state[1:] == last[1:]
        if not len(weak) or idle or work > _PATHS * many:
            break
        last = state
        order = [int(k) for k in weak[np.argsort(bounds[weak], kind="stable")]]
        fresh, stale = [k for k in order if k not in solved], [k for k in order[:_PER_ROUND] if k in solved]
        if len(fresh) > _PER_ROUND:  # the weakest cases and some spread over the others, since neighbours share their cuts
            others = sorted(fresh[2:])
            fresh = sorted({*fresh[:2], *(others[int(k)] for k in np.linspace(0, len(others) - 1, _PER_ROUND - 2))})
        if fresh:  # cuts and plans from the weakest cases that are new
            copies = restrict_to_cases(stack, [cases[k] for k in fresh])
            path = follow_path(copies, gap=_GAP)
            solved.update(fresh)
            cuts, work = join_cuts(cuts, cuts_of(copies, path)), work + path.work
            if tried < _WORK * many:
                new = best_whole(problem, path.plan * copies.mass[:, None, None, None])
                result, tried = new if new.objective < result.objective else result, tried + new.work
        if stale and work < _PATHS * many:  # cuts at the weakest t of those that are not
            copies = restrict_to_cases(stack, [cases[k] for k in stale], pinned=weakest[stale])
            path = follow_path(copies, gap=_GAP)
            cuts, work = join_cuts(cuts, cuts_of(copies, path)), work + path.work
    if bounds.min() < result.objective * (1.0 - gap):
        result = shake(problem, result, float(bounds.min()), gap=gap)
        bounds, _ = case_bounds(stack, cases, cuts, enough=result.objective)
    return replace(result, bound=min(max(float(bounds.min()), relaxed.bound or 0.0), result.objective))


def shake(problem: Problem, result: WholePlan, bound: float, *, gap: float, attempts: int = 8) -> WholePlan:
    """Iterated local search: some samples of the best plan move at random, and all copies descend again."""
    spent = 0.0
    for attempt in range(attempts):
        if bound >= result.objective * (1.0 - gap) or spent > _SHAKE_WORK * patience(result.plan):
            break
        rng, copies = stream(0, "shuffle/shake", attempt), np.repeat(result.plan[None], _KICKS, 0)
        for copy in copies:  # two to nine samples of each move elsewhere
            for _ in range(rng.integers(2, 10)):
                places = np.argwhere(copy > 0)
                i, v, j = places[rng.integers(len(places))]
                copy[i, v, j] -= 1
                copy[i, v, rng.integers(copy.shape[1])] += 1
        end = descend(batch_of(problem, copies), work=_SHAKE_DESCENT_WORK)
        spent += float(end.work.sum())
        k = int(end.value.argmin())
        if end.value[k] < result.objective:
            result = replace(result, plan=end.plan[k], objective=float(end.value[k]))
    return result
