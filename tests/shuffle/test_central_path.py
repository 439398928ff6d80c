"""Following the path: the objective falls towards the optimum, rows stay whole, every problem at its own pace."""

import numpy as np
import pytest

from fedfleet.shuffle.central_path import WARM_GAP, follow_path, warm_up
from fedfleet.shuffle.problem_batch import relaxed_problems, relaxed_value
from fedfleet.shuffle.relaxation import solve_relaxed
from tests.shuffle.users import user

PROBLEMS = [user(seed, 5, 3, 90, alpha=alpha) for seed, alpha in ((1, 1.0), (2, 0.1), (3, 5.0))]


def test_a_smaller_gap_is_nearer_to_the_optimum():
    stack = relaxed_problems(PROBLEMS)
    best = np.array([solve_relaxed(p, certificate=False).objective for p in PROBLEMS])
    rough, fine = (relaxed_value(stack, follow_path(stack, gap=gap).plan) for gap in (0.3, 1e-4))
    assert (fine <= rough + 1e-9).all()
    np.testing.assert_allclose(fine, best, rtol=1e-3)


def test_rows_keep_their_sums_to_the_last_digits():
    stack = relaxed_problems(PROBLEMS)
    path = follow_path(stack, gap=1e-2)
    np.testing.assert_allclose(path.plan.sum(3), stack.supply, rtol=1e-13)
    assert (path.plan >= 0.0).all()
    assert (path.prices >= 0.0).all() and (path.raised >= 0.0).all(), "multipliers that make cuts are not negative"


def test_company_changes_no_path():
    together = follow_path(relaxed_problems(PROBLEMS), gap=1e-3)
    for k, problem in enumerate(PROBLEMS):
        alone = follow_path(relaxed_problems([problem]), gap=1e-3)
        np.testing.assert_allclose(together.plan[k], alone.plan[0], atol=1e-6)
        assert together.t[k] == pytest.approx(alone.t[0], abs=1e-6)


def test_warming_up_brings_the_unit_near_the_optimum():
    slow_links = user(5, 6, 4, 120, bits=2e8, alpha=0.01)
    stack = relaxed_problems([slow_links])
    better, path = warm_up(stack)
    assert better.unit[0] < 0.5 * stack.unit[0], "sharing by speed is far from the best where links are slow"
    assert relaxed_value(better, path.plan)[0] > 0.5 * better.unit[0]
    assert relaxed_value(better, path.plan)[0] <= solve_relaxed(slow_links).objective * (1 + 2 * WARM_GAP / 0.5)
