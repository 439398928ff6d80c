"""Whole plans: rounded from real ones, improved, bounded; each step keeps rows and never makes a plan worse."""

import numpy as np
import pytest

from fedfleet.shuffle.local_search import objectives
from fedfleet.shuffle.objective import score
from fedfleet.shuffle.relaxed import solve_relaxed
from fedfleet.shuffle.rounding import largest_remainder
from fedfleet.shuffle.simple_plans import identity, proportional
from fedfleet.shuffle.whole_plans import WholePlan, batch_of, best_whole, improve_and_bound, shake
from tests.shuffle.users import user

PROBLEM = user(9, 6, 3, 40)


def kept_as_it_is():
    plan = identity(PROBLEM).transpose(1, 0, 2)
    return WholePlan(plan, score(PROBLEM, identity(PROBLEM)).objective, None)


def check(found):
    assert (found.plan >= 0).all() and (found.plan.sum(2) == PROBLEM.counts.T).all()
    assert found.objective == pytest.approx(score(PROBLEM, found.plan.transpose(1, 0, 2)).objective, rel=1e-9)


def test_a_batch_has_the_objective_of_each_plan():
    plans = np.stack([identity(PROBLEM), largest_remainder(proportional(PROBLEM)[None], PROBLEM.counts[None])[0]])
    values = objectives(batch_of(PROBLEM, plans.transpose(0, 2, 1, 3)))
    assert values.tolist() == pytest.approx([score(PROBLEM, plan).objective for plan in plans])


def test_the_best_of_several_starts_is_no_worse_than_each():
    starts = np.stack([proportional(PROBLEM), solve_relaxed(PROBLEM, certificate=False).plan]).transpose(0, 2, 1, 3)
    together = best_whole(PROBLEM, starts)
    check(together)
    assert together.objective <= min(best_whole(PROBLEM, one[None]).objective for one in starts) * (1 + 1e-12)


def test_the_bound_lies_below_the_plan_and_above_the_relaxed_one():
    relaxed = solve_relaxed(PROBLEM)
    found = improve_and_bound(PROBLEM, relaxed, kept_as_it_is())
    check(found)
    assert relaxed.bound <= found.bound <= found.objective <= kept_as_it_is().objective
    assert found.objective >= relaxed.objective * (1 - 1e-6)


def test_shaking_repeats_and_never_makes_worse():
    first = shake(PROBLEM, kept_as_it_is(), 0.0, gap=5e-3)
    check(first)
    assert first.objective <= kept_as_it_is().objective
    assert np.array_equal(first.plan, shake(PROBLEM, kept_as_it_is(), 0.0, gap=5e-3).plan)
    near = kept_as_it_is()
    assert shake(PROBLEM, near, near.objective, gap=5e-3) is near, "a plan that meets the bound is left alone"
