"""Whole plans: exact rows, near the bound, never worse than simpler plans, right on instances small enough to enumerate."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.exchange import fuzzed
from fedfleet.shuffle.local_search import best_move
from fedfleet.shuffle.plans import identity, largest_remainder, proportional
from fedfleet.shuffle.problem import problem_from, score
from fedfleet.shuffle.solve import solve, solve_many
from tests.shuffle.users import user, users

pytestmark = pytest.mark.slow


def check(problem, solution):
    """What holds for every solution."""
    assert solution.plan.dtype == np.int64
    assert (solution.plan >= 0).all()
    assert (solution.plan.sum(2) == problem.counts).all()
    assert (solution.plan.sum((0, 2)) == problem.counts.sum(0)).all()
    assert solution.score.objective == score(problem, solution.plan).objective
    assert solution.score.objective <= score(problem, identity(problem)).objective * (1 + 1e-12)
    shared = largest_remainder(proportional(problem).transpose(1, 0, 2)[None], problem.counts.T[None])[0]
    assert solution.score.objective <= score(problem, shared.transpose(1, 0, 2)).objective * (1 + 1e-12)


@settings(deadline=None, derandomize=True, max_examples=15)
@given(users())
def test_whole_plans_are_plans(problem):
    solution = solve(problem)
    check(problem, solution)
    assert solution.bound is not None and solution.integer_bound is not None
    assert solution.bound <= solution.relaxed * (1 + 1e-12)
    assert solution.relaxed <= solution.score.objective * (1 + 1e-5)
    assert solution.integer_bound <= solution.score.objective * (1 + 1e-12)


@settings(deadline=None, derandomize=True, max_examples=15)
@given(st.lists(users(), min_size=1, max_size=4))
def test_quick_plans_are_plans(problems):
    for problem, solution in zip(problems, solve_many(problems), strict=True):
        check(problem, solution)
        assert solution.bound is None


def every_plan(counts):
    """All whole plans of a tiny instance."""
    devices = counts.shape[0]
    choices = [[c for c in itertools.product(range(n + 1), repeat=devices) if sum(c) == n] for n in counts.ravel()]
    for rows in itertools.product(*choices):
        yield np.array(rows).reshape(*counts.shape, devices)


TINY = [
    ([[2, 1], [0, 3]], [0.05, 0.02]),
    ([[4, 0], [1, 2]], [0.01, 0.13]),
    ([[3, 0, 1], [0, 2, 1]], [0.05, 0.05]),
    ([[2, 0], [0, 2], [1, 0]], [0.02, 0.05, 0.1]),
    ([[2, 1], [0, 0], [1, 2]], [0.02, 0.01, 0.03]),
]


@pytest.mark.parametrize(("counts", "seconds"), TINY)
@pytest.mark.parametrize("alpha", ["auto", 0.0, 20.0])
def test_against_enumeration(counts, seconds, alpha):
    devices = len(seconds)
    problem = problem_from(
        {
            "counts": counts,
            "seconds_per_sample": seconds,
            "up_bps": [1e6, 2e7, 5e6][:devices],
            "down_bps": [8e6, 1e6, 3e7][:devices],
            "bits_per_sample": 1e5,
            "alpha": alpha,
        }
    )
    solution = solve(problem)
    best = min(score(problem, plan).objective for plan in every_plan(problem.counts))
    assert solution.integer_bound is not None
    assert solution.integer_bound <= best * (1 + 1e-9)
    assert solution.bound is not None and solution.bound <= best * (1 + 1e-9)
    assert best * (1 - 1e-9) <= solution.score.objective <= best * 1.02


def test_one_device_keeps_everything():
    problem = problem_from(
        {"counts": [[3, 1]], "seconds_per_sample": [0.1], "up_bps": [1e6], "down_bps": [1e6], "bits_per_sample": 1e5,
         "alpha": "auto"}
    )  # fmt: skip
    for solution in (solve(problem), solve_many([problem])[0]):
        assert (solution.plan == identity(problem)).all()
        assert solution.bound == solution.relaxed == solution.score.objective


def test_one_class_is_about_time_alone():
    problem = problem_from(
        {"counts": [[30], [0]], "seconds_per_sample": [0.1, 0.1], "up_bps": [1e9, 1e9], "down_bps": [1e9, 1e9],
         "bits_per_sample": 1e3, "alpha": 50.0}
    )  # fmt: skip
    solution = solve(problem)
    assert solution.score.max_imbalance == 0.0
    assert solution.plan.sum((0, 1)).tolist() == [15, 15]


def test_a_device_without_data_may_receive():
    problem = problem_from(
        {"counts": [[8, 8], [0, 0]], "seconds_per_sample": [0.1, 0.1], "up_bps": [1e9, 1e9], "down_bps": [1e9, 1e9],
         "bits_per_sample": 1e3, "alpha": 5.0}
    )  # fmt: skip
    assert solve(problem).plan.sum(0).tolist() == [[4, 4], [4, 4]]


def test_data_survive_a_hundred_rounds():
    problem = user(2, 5, 3, 60)
    totals = problem.counts.sum(0)
    rng = np.random.default_rng(0)
    for _ in range(100):
        problem = dataclasses.replace(problem, seconds_per_sample=rng.uniform(0.01, 0.1, 3), up_bps=rng.uniform(1e6, 1e8, 3))
        (solution,) = solve_many([problem])
        problem = dataclasses.replace(problem, counts=solution.plan.sum(0).T)
        assert (problem.counts.sum(0) == totals).all()


def test_many_users_equal_one_by_one():
    problems = [user(seed, 5, 3 + seed % 2, 80) for seed in range(6)]
    together = solve_many(problems)
    for problem, solution in zip(problems, together, strict=True):
        (alone,) = solve_many([problem])
        assert solution.score.objective == pytest.approx(alone.score.objective, rel=2e-3)
        assert solution.relaxed == pytest.approx(alone.relaxed, rel=1e-4)
        full = solve(problem)
        assert full.relaxed <= solution.relaxed * (1 + 1e-5)


@pytest.mark.parametrize(("classes", "devices", "samples"), [(5, 3, 200), (4, 4, 256)])
def test_close_to_the_relaxed_optimum_where_samples_are_many(classes, devices, samples):
    solution = solve(user(3, classes, devices, samples))
    assert solution.score.objective <= 1.025 * solution.relaxed


def test_close_to_the_whole_bound_where_samples_are_few():
    solution = solve(user(1, 62, 4, 345))
    assert solution.integer_bound is not None
    assert solution.score.objective <= 1.01 * solution.integer_bound
    assert solution.score.objective > 1.05 * solution.relaxed  # wholeness itself costs something here


@pytest.mark.parametrize("seed", range(6))
def test_the_whole_bound_holds_where_emptying_a_device_pays(seed):
    """More classes than samples: a device with one sample is worse than none, so plans with empty devices compete."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((3, 5), np.int64)
    np.add.at(counts, (rng.integers(0, 3, 8), rng.integers(0, 5, 8)), 1)
    problem = problem_from(
        {
            "counts": counts,
            "seconds_per_sample": [0.02, 0.05, 0.4],
            "up_bps": [1e7, 2e7, 5e6],
            "down_bps": [8e6, 1e7, 3e6],
            "bits_per_sample": 1e5,
            "alpha": "auto",
        }
    )
    solution = solve(problem)
    best = min(score(problem, plan).objective for plan in every_plan(problem.counts))
    assert solution.integer_bound is not None and solution.integer_bound <= best * (1 + 1e-9)
    assert best * (1 - 1e-9) <= solution.score.objective <= best * 1.02


@pytest.mark.parametrize("seed", [1, 29, 56, 76, 90, 100, 187, 189])
def test_quick_is_never_far_behind_full(seed):
    """Users whose quick plan was up to 6.6 times the full one's, because it never descended from the simple plans."""
    problem = fuzzed(seed)
    full = solve(problem)
    check(problem, full)
    assert full.bound is not None and full.integer_bound is not None
    assert full.bound <= full.relaxed * (1 + 1e-12) and full.relaxed <= full.score.objective * (1 + 1e-5)
    assert full.integer_bound <= full.score.objective * (1 + 1e-12)
    for quick in (solve(problem, quick=True), solve_many([problem])[0]):
        check(problem, quick)
        assert quick.score.objective <= 1.1 * full.score.objective


def test_a_full_solve_looks_at_a_bounded_number_of_tables(monkeypatch):
    """This user descended one sample at a time for 12 s. What is counted here takes about 20 ns each."""
    looked = [0.0]

    def counted(batch, size):
        looked[0] += 8000.0 + batch.plan.size * batch.plan.shape[2]
        return best_move(batch, size)

    monkeypatch.setattr("fedfleet.shuffle.local_search.best_move", counted)
    problem = fuzzed(293)
    solution = solve(problem)
    check(problem, solution)
    assert looked[0] < 1.2e8
    assert solution.score.objective == pytest.approx(55.9469, rel=1e-4)
    assert solution.integer_bound == pytest.approx(55.0869, rel=1e-3)


def test_answers_repeat():
    problem = fuzzed(22)
    one, two = solve(problem), solve(problem)
    assert np.array_equal(one.plan, two.plan) and (one.bound, one.integer_bound) == (two.bound, two.integer_bound)
