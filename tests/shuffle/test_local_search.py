"""Local search on whole plans: every value is the true objective, and where it stops no single move helps."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings

from fedfleet.shuffle.local_search import descend
from fedfleet.shuffle.plan_batch import objectives, take_plans
from fedfleet.shuffle.problem import problem_from
from fedfleet.shuffle.simple_plans import identity
from tests.shuffle.users import batch_at, single_moves, true_value, user, users

laws = settings(deadline=None, derandomize=True, max_examples=25)


@laws
@given(users(most_devices=3, most_classes=4))
def test_a_descent_ends_where_no_move_helps_and_keeps_every_sample(problem):
    batch = batch_at(problem, identity(problem))
    end = descend(batch)
    plan, value = end.plan, end.value
    assert (plan.sum(3) == batch.plan.sum(3)).all() and (plan >= 0).all()
    assert value[0] == pytest.approx(true_value(problem, plan[0]), rel=1e-9)
    assert value[0] <= objectives(batch)[0]
    assert min(true_value(problem, p) for p in single_moves(plan[0])) >= value[0] * (1 - 1e-9)


def test_plans_of_a_batch_do_not_touch_each_other():
    problem = user(7, 4, 3, 40)
    kept = identity(problem)
    moved = kept.copy()
    v, i = np.argwhere(problem.counts > 1)[0]
    moved[v, i, v] -= 1
    moved[v, i, (v + 1) % 3] += 1
    both = batch_at(problem, kept, moved)
    for limits in ({}, {"steps": 5}, {"work": 2e4}):
        together = descend(both, **limits)
        for k in range(2):
            alone = descend(take_plans(both, np.array([k])), **limits)
            assert np.array_equal(alone.plan[0], together.plan[k])
            assert (alone.value[0], alone.work[0]) == (together.value[k], together.work[k])


def test_without_steps_nothing_moves():
    problem = user(8, 3, 3, 30)
    batch = batch_at(problem, identity(problem))
    for limits in ({"steps": 0}, {"work": 0.0}):
        end = descend(batch, **limits)
        assert np.array_equal(end.plan, batch.plan)
        assert end.value[0] == objectives(dataclasses.replace(batch))[0]


def test_many_samples_of_a_class_move_in_few_steps():
    problem = problem_from(
        {"counts": [[40_000, 40_000], [0, 0]], "seconds_per_sample": [0.1, 0.1], "up_bps": [1e9, 1e9],
         "down_bps": [1e9, 1e9], "bits_per_sample": 1e3, "alpha": 5.0}
    )  # fmt: skip
    end = descend(batch_at(problem, identity(problem)), steps=400)
    assert end.plan[0].sum((0, 1)).tolist() == [40_000, 40_000]


def test_work_is_counted_and_kept_to():
    problem = user(7, 8, 4, 400)
    free = descend(batch_at(problem, identity(problem)))
    short = descend(batch_at(problem, identity(problem)), work=0.25 * free.work[0])
    assert 0.25 * free.work[0] <= short.work[0] < 0.5 * free.work[0]
    assert free.value[0] < short.value[0] < objectives(batch_at(problem, identity(problem)))[0]
