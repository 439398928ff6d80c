"""The reference solver: its gradient is right, and it reaches what the relaxed solver finds."""

import numpy as np

from fedfleet.shuffle.relaxation import solve_relaxed
from fedfleet.shuffle.slsqp import _gradient, _parts, _value, solve_slsqp
from tests.shuffle.users import user


def test_slsqp_with_numerical_gradients_reaches_the_same():
    problem = user(3, 3, 3, 40)
    # How far it comes from one start is luck, and another with each processor: the objective has kinks.
    reference = solve_slsqp(problem, starts=12)
    assert solve_relaxed(problem).objective <= reference.objective * (1 + 1e-4)
    assert reference.objective <= solve_relaxed(problem).objective * 1.01


def test_slsqps_gradient_against_differences():
    for flags in ({}, {"js_root": True}, {"time_balance": False}):
        parts = _parts(user(3, 5, 3, 100, **flags))
        flat = np.random.default_rng(0).random(len(parts.rows) * 3)
        step = 1e-6 * np.eye(len(flat))
        numeric = [(_value(parts, flat + e)[0] - _value(parts, flat - e)[0]) / 2e-6 for e in step]
        np.testing.assert_allclose(_gradient(parts, flat), numeric, atol=1e-5)
