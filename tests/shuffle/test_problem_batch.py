"""Relaxed problems side by side: units change nothing, and the starting point obeys every restriction."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings

from fedfleet.shuffle.newton_step import is_inside, point_at
from fedfleet.shuffle.plans import identity, proportional
from fedfleet.shuffle.problem import score
from fedfleet.shuffle.problem_batch import (
    price,
    relaxed_problems,
    relaxed_value,
    rescale_time,
    start_point,
    take_problems,
)
from tests.shuffle.users import user, users


def in_units(stack, plan):
    """A plan[v][i][j] in samples as the stack keeps it."""
    return plan.transpose(1, 0, 2)[None] / stack.mass[0]


@settings(deadline=None, derandomize=True, max_examples=40)
@given(users())
def test_the_value_in_units_is_the_objective_in_seconds(problem):
    stack = relaxed_problems([problem])
    for plan in (identity(problem).astype(float), proportional(problem)):
        assert relaxed_value(stack, in_units(stack, plan))[0] == pytest.approx(score(problem, plan).objective, rel=1e-9)


def test_another_unit_of_time_changes_no_value():
    problem = user(4, 5, 3, 70)
    stack = relaxed_problems([problem])
    plan = in_units(stack, proportional(problem))
    assert relaxed_value(rescale_time(stack, np.array([0.01])), plan) == pytest.approx(relaxed_value(stack, plan))


def test_taking_problems_repeats_and_reorders_them():
    stack = relaxed_problems([user(1, 4, 3, 50), user(2, 4, 3, 50)])
    some = take_problems(stack, np.array([1, 1, 0]))
    assert np.array_equal(some.supply, stack.supply[[1, 1, 0]])
    assert np.array_equal(some.unit, stack.unit[[1, 1, 0]])


@pytest.mark.parametrize("root", [False, True])
def test_the_price_of_imbalance_and_its_derivatives(root):
    stack = relaxed_problems([user(3, 4, 3, 50, js_root=root)])
    t, h = np.array([0.2]), 1e-5
    value, first, second = price(stack, t)
    assert value == pytest.approx(stack.alpha * (np.sqrt(t) if root else t))
    before, after = price(stack, t - h)[0], price(stack, t + h)[0]
    assert first == pytest.approx((after - before) / (2 * h), rel=1e-6)
    assert second == pytest.approx((after - 2 * value + before) / h**2, abs=1e-4)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(users())
def test_the_start_lies_inside_also_with_a_floor_and_a_closed_device(problem):
    stack = relaxed_problems([problem])
    plan, t = start_point(stack)
    assert is_inside(stack, point_at(stack, plan, t)).all()
    np.testing.assert_allclose(plan.sum(3), stack.supply, rtol=1e-12)
    open_ = stack.open.copy()
    open_[0, 0] = False
    even = float(stack.supply.sum()) / (open_.sum())
    tight = dataclasses.replace(stack, open=open_, floor=np.array([0.9 * even]))
    plan, t = start_point(tight)
    assert is_inside(tight, point_at(tight, plan, t)).all()
    assert not plan[..., 0].any(), "a closed device receives nothing"
