"""Local search on whole plans: every value is the true objective, and where it stops no single move helps."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.shuffle.local_search import SHARES, best_bundle, best_move, best_swap, descend
from fedfleet.shuffle.plans import identity, objectives, take_plans
from fedfleet.shuffle.problem import problem_from, score
from fedfleet.shuffle.solve import batch_of
from tests.shuffle.users import batch_at, single_moves, true_value, user, users


@settings(deadline=None, derandomize=True, max_examples=40)
@given(users(most_devices=3, most_classes=4), st.sampled_from([1, 2, 4]))
def test_the_best_move_is_the_best_of_all_moves(problem, size):
    batch = batch_at(problem, identity(problem))
    change, value = best_move(batch, np.array([size]))
    every = [true_value(problem, p) for p in single_moves(batch.plan[0], size)]
    if not every:
        assert value[0] == np.inf
        return
    assert value[0] == pytest.approx(true_value(problem, batch.plan[0] + change[0]), rel=1e-9)
    assert value[0] == pytest.approx(min(every), rel=1e-9)


def test_a_swap_keeps_sizes_and_is_priced_truly():
    problem = user(6, 4, 3, 40)
    batch = batch_at(problem, identity(problem))
    change, value = best_swap(batch)
    assert (change.sum(3) == 0).all(), "every sender still hands out what it has"
    assert (change.sum((1, 2)) == 0).all(), "every device keeps its size"
    assert value[0] == pytest.approx(true_value(problem, batch.plan[0] + change[0]), rel=1e-9)


def bundles(problem, plan):
    """Every bundle of a plan [c, V, V], one by one: how many of each class go, those first whose way is cheapest."""
    up, down = 1.0 / problem.up_bps, 1.0 / problem.down_bps
    devices = len(problem.counts)
    way = np.where(np.eye(devices) > 0, 0.0, problem.bits_per_sample * (up[:, None] + down[None]))
    x = plan.sum(1)
    for j in range(devices):
        for k in range(devices):
            for size in [np.rint(share * x[:, j]) for share in SHARES] + [np.minimum(x[:, j], 1)]:
                other = plan.copy()
                for i, n in enumerate(size.astype(int)):
                    for v in np.argsort(way[:, k] - way[:, j], kind="stable"):
                        some = min(n, plan[i, v, j])
                        other[i, v, j] -= some
                        other[i, v, k] += some
                        n -= some
                if k != j:
                    yield other


@settings(deadline=None, derandomize=True, max_examples=25)
@given(users(most_devices=3, most_classes=4))
def test_the_best_bundle_is_the_best_of_all_and_priced_truly(problem):
    plan = identity(problem).transpose(1, 0, 2)
    change, value = best_bundle(batch_of(problem, plan[None]))
    after = plan + change[0]
    assert (after >= 0).all() and (after.sum(2) == plan.sum(2)).all()
    assert value[0] == pytest.approx(score(problem, after.transpose(1, 0, 2)).objective, rel=1e-9)
    every = [score(problem, other.transpose(1, 0, 2)).objective for other in bundles(problem, plan)]
    assert value[0] == pytest.approx(min(every), rel=1e-9)


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
