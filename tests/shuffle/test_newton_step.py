"""The structured Newton step against dense finite differences."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.shuffle.barrier_function import barrier_value, point_at
from fedfleet.shuffle.newton_step import newton_step
from fedfleet.shuffle.problem_batch import relaxed_problems, start_point
from tests.shuffle.users import user


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
        corners = (
            phi(step + d, rise + r) - phi(step - d, rise - r) - phi(d - step, r - rise) + phi(-step - d, -rise - r)
        )
        curved.append(corners / (4 * e * h))
    np.testing.assert_allclose(
        curved, -np.array(slopes), atol=2e-3 * np.abs(slopes).max()
    )  # Hessian x step = -gradient
