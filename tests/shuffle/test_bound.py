"""Cuts are lower bounds whatever multipliers they are made from."""

import itertools

import numpy as np

from fedfleet.shuffle.bound import all_cases, case_bounds, cut_values, cuts_of, restrict_to_cases
from fedfleet.shuffle.central_path import follow_path
from fedfleet.shuffle.divergence import imbalance
from fedfleet.shuffle.problem import problem_from, score
from fedfleet.shuffle.problem_batch import relaxed_problems
from fedfleet.shuffle.relaxation import solve_relaxed
from tests.shuffle.users import user


def test_a_cut_holds_wherever_it_is_evaluated():
    """Any multipliers give a bound: here of a path stopped far too early."""
    problem = user(11, 5, 3, 80)
    stack = relaxed_problems([problem])
    rough = cuts_of(stack, follow_path(stack, gap=0.3))
    t = np.linspace(stack.least[0], 0.69, 30)
    bound = (cut_values(rough, t)[0] + stack.alpha[0] * t).min() * stack.unit[0]
    assert bound <= solve_relaxed(problem).objective
    values = cut_values(rough, t)[0]
    assert (values[1:-1] >= (values[:-2] + values[2:]) / 2 - 1e-12).all()  # concave


TINY = problem_from({
    "counts": [[2, 0], [0, 2], [1, 0]], "seconds_per_sample": [0.02, 0.05, 0.1], "up_bps": [1e6, 2e7, 5e6],
    "down_bps": [8e6, 1e6, 3e7], "bits_per_sample": 1e5, "alpha": "auto",
})  # fmt: skip


def every_plan(counts):
    devices = len(counts)
    choices = [[c for c in itertools.product(range(n + 1), repeat=devices) if sum(c) == n] for n in counts.ravel()]
    for rows in itertools.product(*choices):
        yield np.array(rows).reshape(*counts.shape, devices)


def belongs(plan, case):
    """Whether a whole plan obeys a case."""
    held = plan.sum((0, 1))
    empty = {int(v) for v in np.flatnonzero(held == 0)}
    return set(case.closed) <= empty and all(held[v] >= case.least for v in range(len(held)) if v not in case.closed)


def test_every_whole_plan_belongs_to_a_case_that_tells_the_truth_about_it():
    cases = all_cases(TINY)
    for plan in every_plan(TINY.counts):
        mine = [case for case in cases if belongs(plan, case)]
        worst = imbalance(plan.sum(0).astype(float)).max()
        assert any(case.low <= worst + 1e-12 for case in mine)


def test_bounds_of_cases_lie_below_every_plan():
    relaxed = solve_relaxed(TINY)
    bounds, weakest = case_bounds(relaxed.stack, all_cases(TINY), relaxed.cuts, enough=np.inf)
    best = min(score(TINY, plan).objective for plan in every_plan(TINY.counts))
    assert bounds.min() <= best * (1 + 1e-9)
    assert bounds.min() >= relaxed.bound * (1 - 1e-6), "a case is a relaxed problem with more to obey"
    assert ((weakest > 0.0) & (weakest <= 0.7)).all()


def test_restrictions_are_those_of_the_case():
    problem = user(4, 5, 3, 60)
    stack = relaxed_problems([problem])
    cases = [case for case in all_cases(problem) if len(case.closed) < 2][:40]
    copies = restrict_to_cases(stack, cases)
    for k, case in enumerate(cases):
        assert np.flatnonzero(~copies.open[k]).tolist() == list(case.closed)
        room = float(stack.supply.sum()) / copies.open[k].sum()
        assert copies.floor[k] <= min(case.least / stack.mass[0], room) + 1e-12
    pinned = restrict_to_cases(stack, cases[:2], pinned=np.array([0.0, 0.5]))
    assert pinned.pinned[0] > stack.least[0] and pinned.pinned[1] == 0.5


def test_millions_of_samples_cost_no_more_memory_than_few():
    huge = problem_from({
        "counts": [[4 * 10**6, 5], [0, 4 * 10**6]], "seconds_per_sample": [0.02, 0.05], "up_bps": [1e9, 1e9],
        "down_bps": [1e9, 1e9], "bits_per_sample": 1e3, "alpha": "auto",
    })  # fmt: skip
    cases = all_cases(huge)
    assert len(cases) < 1000 and max(case.least for case in cases) > 10**5
    assert all(case.low == 0.0 for case in cases if case.least > 10**4 and not case.closed), "nothing is claimed of them"
