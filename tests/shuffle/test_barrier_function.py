"""The barrier function: infinite outside, smooth inside, and close to max + std as mu falls."""

import dataclasses

import numpy as np
import pytest

from fedfleet.shuffle.barrier_function import barrier_value, is_inside, point_at, soft_time, time_weights
from fedfleet.shuffle.problem_batch import relaxed_problems, start_point
from tests.shuffle.users import user

LATENCIES = np.array([[3.0, 1.0, 2.5], [0.2, 0.2, 0.2]])


def stack_of_two(**flags):
    return relaxed_problems([user(1, 4, 3, 60, **flags), user(2, 4, 3, 60, **flags)])


@pytest.mark.parametrize("balanced", [True, False])
def test_the_softened_time_tends_to_max_plus_deviation(balanced):
    stack = stack_of_two(time_balance=balanced)
    exact = LATENCIES.max(1) + balanced * LATENCIES.std(1)
    gaps = [np.abs(soft_time(stack, LATENCIES, np.full(2, mu)).value - exact).max() for mu in (1e-1, 1e-3, 1e-5)]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-3


@pytest.mark.parametrize("balanced", [True, False])
def test_its_weights_are_its_gradient_and_a_lower_bound(balanced):
    stack, mu = stack_of_two(time_balance=balanced), np.full(2, 0.05)
    weights = time_weights(stack, LATENCIES, mu)
    for v in range(3):
        step = np.zeros((2, 3))
        step[:, v] = 1e-6
        ahead, behind = (soft_time(stack, LATENCIES + s, mu).value for s in (step, -step))
        assert weights[:, v] == pytest.approx((ahead - behind) / 2e-6, abs=1e-6)
    rng = np.random.default_rng(0)
    for _ in range(50):
        any_latency = rng.exponential(1.0, (2, 3))
        worth = any_latency.max(1) + balanced * any_latency.std(1)
        assert (worth >= (weights * any_latency).sum(1) - 1e-12).all()


def test_outside_it_is_infinite():
    stack = stack_of_two()
    plan, t = start_point(stack)
    mu = np.full(2, 0.1)
    assert np.isfinite(barrier_value(stack, point_at(stack, plan, t), mu)).all()
    too_even = point_at(stack, plan, np.array([t[0], 1e-9 + 0.5 * stack.least[1]]))
    assert is_inside(stack, too_even).tolist() == [True, False]
    assert np.isinf(barrier_value(stack, too_even, mu)).tolist() == [False, True]
    floored = dataclasses.replace(stack, floor=np.array([0.0, 1e6]))
    assert is_inside(floored, point_at(floored, plan, t)).tolist() == [True, False]


def test_a_pinned_t_has_no_barrier_of_its_own():
    stack = stack_of_two()
    plan, t = start_point(stack)
    pinned = dataclasses.replace(stack, pinned=t, low=t + 1.0)
    assert is_inside(pinned, point_at(pinned, plan, t)).all()
