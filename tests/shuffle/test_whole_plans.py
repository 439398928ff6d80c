"""Whole plans: rounded from real ones, improved, bounded; each step keeps rows and never makes a plan worse."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.shuffle.plans import identity, largest_remainder, proportional
from fedfleet.shuffle.problem import score
from fedfleet.shuffle.relaxation import solve_relaxed
from fedfleet.shuffle.solve import (
    DESCENT,
    WholePlan,
    best_descent,
    best_whole,
    from_cases,
    from_simple,
    improve_and_bound,
    patience,
    shake,
)
from tests.shuffle.users import batch_at, user

pytestmark = pytest.mark.slow

PROBLEM = user(9, 6, 3, 40)


def kept_as_it_is():
    plan = identity(PROBLEM).transpose(1, 0, 2)
    return WholePlan(plan, score(PROBLEM, identity(PROBLEM)).objective, None)


def check(result):
    assert (result.plan >= 0).all() and (result.plan.sum(2) == PROBLEM.counts.T).all()
    assert result.objective == pytest.approx(score(PROBLEM, result.plan.transpose(1, 0, 2)).objective, rel=1e-9)


def test_the_best_of_several_starts_is_no_worse_than_each():
    starts = np.stack([proportional(PROBLEM), solve_relaxed(PROBLEM, certificate=False).plan]).transpose(0, 2, 1, 3)
    together = best_whole(PROBLEM, starts)
    check(together)
    assert together.objective <= min(best_whole(PROBLEM, one[None]).objective for one in starts) * (1 + 1e-12)


def test_the_bound_lies_below_the_plan_and_above_the_relaxed_one():
    relaxed = solve_relaxed(PROBLEM)
    result = improve_and_bound(PROBLEM, relaxed, kept_as_it_is())
    check(result)
    assert relaxed.bound <= result.bound <= result.objective <= kept_as_it_is().objective
    assert result.objective >= relaxed.objective * (1 - 1e-6)


def test_shaking_repeats_and_never_makes_worse():
    first = shake(PROBLEM, kept_as_it_is(), 0.0, gap=5e-3)
    check(first)
    assert first.objective <= kept_as_it_is().objective
    assert np.array_equal(first.plan, shake(PROBLEM, kept_as_it_is(), 0.0, gap=5e-3).plan)
    near = kept_as_it_is()
    assert shake(PROBLEM, near, near.objective, gap=5e-3) is near, "a plan that meets the bound is left alone"


def test_descents_from_simple_plans_and_from_cases_never_make_worse():
    stack = solve_relaxed(PROBLEM, certificate=False).stack
    for better in (from_simple(PROBLEM, kept_as_it_is()), from_cases(PROBLEM, stack, kept_as_it_is())):
        check(better)
        assert better.objective < kept_as_it_is().objective
        assert from_simple(PROBLEM, replace(better, objective=0.0)).plan is better.plan, "what is better is left alone"


def test_a_race_is_won_by_one_of_its_best_and_its_work_is_bounded():
    large = user(4, 30, 6, 2000)
    starts = [
        identity(large),
        *(largest_remainder(proportional(large, s)[None], large.counts[None])[0] for s in np.eye(6)),
    ]
    result = best_descent(batch_at(large, *starts))
    assert result.objective <= min(score(large, plan).objective for plan in starts)
    assert result.work <= 1.2 * (7 * 2e6 + 6 * 2e6 + 3 * DESCENT)


def test_users_of_seven_devices_or_many_samples_may_take_longer():
    assert patience(np.zeros((5, 6, 6), np.int64)) == 1.0
    assert patience(np.zeros((5, 7, 7), np.int64)) == patience(np.full((1, 2, 2), 1000)) > 1.0
