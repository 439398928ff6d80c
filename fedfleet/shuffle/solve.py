"""One user's plan, or a whole round's: relax, certify, make whole, never worse than doing nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedfleet.shuffle.central_path import CENTRED_DECREMENT, WARM_GAP, follow_path, warm_up
from fedfleet.shuffle.divergence import Floats, Ints
from fedfleet.shuffle.local_search import descend
from fedfleet.shuffle.plan_batch import PlanBatch, objectives
from fedfleet.shuffle.plans import identity, largest_remainder, proportional, round_plans
from fedfleet.shuffle.problem import PlanScore, Problem, effort, link, score
from fedfleet.shuffle.problem_batch import RelaxedProblems, relaxed_problems, take_problems
from fedfleet.shuffle.relaxation import best_plan, solve_relaxed
from fedfleet.shuffle.whole_plans import (
    DESCENT,
    GAP,
    WholePlan,
    batch_of,
    best_whole,
    from_cases,
    from_simple,
    improve_and_bound,
    shake,
)

_QUICK_GAP = 1e-3
_NEAR = 1.08  # times the relaxed optimum: a quick plan within it is good enough
_STEPS = 32  # of quick descents before they are compared
_CHUNK_ENTRIES = 40_000  # plan entries solved side by side: few enough to stay in the processor's cache


@dataclass(frozen=True, slots=True)
class Solution:
    """A whole plan[v][i][j] with its score; the relaxed optimum and bounds are None where quick left them out.

    `bound` is below the relaxed optimum and so below every plan; `integer_bound` is below every whole plan.
    """

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
    bound = relaxed.bound
    return Solution(plan, score(problem, plan), relaxed.objective, bound, whole.bound, relaxed.plan)


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
    cost = value.objective
    return Solution(plan, value, cost, cost, cost, plan.astype(float))
