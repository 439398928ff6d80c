"""Local search on whole plans: every value is the true objective, and where it stops no single move helps."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings

from fedfleet.shuffle.local_search import best_move, best_swap, descend, objectives, take_plans
from fedfleet.shuffle.objective import score
from fedfleet.shuffle.simple_plans import identity
from fedfleet.shuffle.whole_plans import batch_of
from tests.shuffle.users import user, users

laws = settings(deadline=None, derandomize=True, max_examples=25)


def batch_at(problem, *plans):
    """Plans[v][i][j] as a batch, which keeps them class first."""
    return batch_of(problem, np.stack([plan.transpose(1, 0, 2) for plan in plans]))


def true_value(problem, plan):
    return score(problem, plan.transpose(1, 0, 2)).objective


def single_moves(plan):
    """Every plan that differs by one sample sent elsewhere."""
    for i, v, j in np.argwhere(plan > 0):
        for k in range(plan.shape[2]):
            if k != j:
                other = plan.copy()
                other[i, v, j] -= 1
                other[i, v, k] += 1
                yield other


@laws
@given(users(most_devices=3, most_classes=4))
def test_the_best_move_is_the_best_of_all_moves(problem):
    batch = batch_at(problem, identity(problem))
    change, value = best_move(batch, np.ones(1, np.int64))
    assert value[0] == pytest.approx(true_value(problem, batch.plan[0] + change[0]), rel=1e-9)
    assert value[0] == pytest.approx(min(true_value(problem, p) for p in single_moves(batch.plan[0])), rel=1e-9)


@laws
@given(users(most_devices=3, most_classes=4))
def test_a_descent_ends_where_no_move_helps_and_keeps_every_sample(problem):
    batch = batch_at(problem, identity(problem))
    plan, value = descend(batch)
    assert (plan.sum(3) == batch.plan.sum(3)).all() and (plan >= 0).all()
    assert value[0] == pytest.approx(true_value(problem, plan[0]), rel=1e-9)
    assert value[0] <= objectives(batch)[0]
    assert min(true_value(problem, p) for p in single_moves(plan[0])) >= value[0] * (1 - 1e-9)


def test_a_swap_keeps_sizes_and_is_priced_truly():
    problem = user(6, 4, 3, 40)
    batch = batch_at(problem, identity(problem))
    change, value = best_swap(batch)
    assert (change.sum(3) == 0).all(), "every sender still hands out what it has"
    assert (change.sum((1, 2)) == 0).all(), "every device keeps its size"
    assert value[0] == pytest.approx(true_value(problem, batch.plan[0] + change[0]), rel=1e-9)


def test_plans_of_a_batch_do_not_touch_each_other():
    problem = user(7, 4, 3, 40)
    kept = identity(problem)
    moved = kept.copy()
    v, i = np.argwhere(problem.counts > 1)[0]
    moved[v, i, v] -= 1
    moved[v, i, (v + 1) % 3] += 1
    both = batch_at(problem, kept, moved)
    plans, values = descend(both)
    for k in range(2):
        plan, value = descend(take_plans(both, np.array([k])))
        assert np.array_equal(plan[0], plans[k])
        assert value[0] == values[k]


def test_without_steps_nothing_moves():
    problem = user(8, 3, 3, 30)
    batch = batch_at(problem, identity(problem))
    plan, value = descend(batch, most=0)
    assert np.array_equal(plan, batch.plan)
    assert value[0] == objectives(dataclasses.replace(batch))[0]
