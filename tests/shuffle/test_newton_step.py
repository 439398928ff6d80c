"""The structured Newton step against dense finite differences."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.exchange import fuzzed
from fedfleet.shuffle import newton_step as module
from fedfleet.shuffle import solve
from fedfleet.shuffle.newton_step import barrier_value, is_inside, newton_step, point_at, soft_time, time_weights
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


@settings(deadline=None, derandomize=True, max_examples=10)
@given(st.integers(0, 1000), st.booleans(), st.booleans(), st.booleans())
def test_the_newton_step_against_dense_differences(seed, balanced, root, floored):
    """Along every feasible direction, by finite differences: Hessian times structured step = - gradient."""
    stack = relaxed_problems([user(seed, 3, 3, 40, time_balance=balanced, js_root=root)])
    if floored:
        stack = dataclasses.replace(stack, floor=stack.floor + 0.5)
    mu, beta = np.array([0.02]), np.ones(1)
    plan, t = start_point(stack)
    t = t + 0.1  # well inside, where differences are accurate

    def phi(change, rise):
        return barrier_value(stack, point_at(stack, plan + change, t + rise), mu)[0]

    ways = []
    for i, v in np.argwhere(stack.supply[0] > 0.0):
        for j in range(2):
            way = np.zeros_like(plan)
            way[0, i, v, j], way[0, i, v, 2] = 1.0, -1.0
            ways.append((way, 0.0))
    if root:  # the root's price is concave in t, where the step is made to descend instead: compare at fixed t
        stack = dataclasses.replace(stack, pinned=t)
    else:
        ways.append((np.zeros_like(plan), 1.0))
    got = newton_step(stack, point_at(stack, plan, t), mu, beta)
    np.testing.assert_allclose(got.plan.sum(3), 0.0, atol=1e-9)
    h = 1e-3 * plan[plan > 0.0].min()
    e = h / max(np.abs(got.plan).max(), np.abs(got.t).max())
    step, rise = e * got.plan, e * got.t
    along = (phi(step, rise) - phi(-step, -rise)) / (2 * e)
    assert along == pytest.approx(-got.decrement[0], rel=1e-3)
    slopes, curved = [], []
    for way, up in ways:
        d, r = h * way, h * up
        slopes.append((phi(d, r) - phi(-d, -r)) / (2 * h))
        corners = phi(step + d, rise + r) - phi(step - d, rise - r) - phi(d - step, r - rise) + phi(-step - d, -rise - r)
        curved.append(corners / (4 * e * h))
    np.testing.assert_allclose(curved, -np.array(slopes), atol=2e-3 * np.abs(slopes).max())  # Hessian x step = -gradient


def test_a_system_that_rounding_made_singular_leaves_the_others_their_bits():
    good, singular = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([[1.0, 2.0], [2.0, 4.0]])
    right = np.array([[1.0], [2.0]])
    both = module._solve(np.stack([good, singular]), np.stack([right, right]))
    assert both[0].tolist() == np.linalg.solve(good, right).tolist()
    assert both[1] == pytest.approx(np.array([[0.2], [0.4]])), "the shortest solution of x + 2y = 1"


def test_a_user_whose_system_is_singular_is_solved():
    full = solve(fuzzed(1101))
    assert full.relaxed - full.bound <= 0.01 * full.relaxed
