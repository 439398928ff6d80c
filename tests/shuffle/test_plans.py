"""Simple plans are what they say; rounding to whole samples keeps the sum of every row and stays near the real plan."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.shuffle.plans import identity, largest_remainder, proportional, round_plans, start_plans
from fedfleet.shuffle.problem import effort, least_possible, score
from tests.shuffle.users import users


@settings(deadline=None, derandomize=True, max_examples=60)
@given(users())
def test_identity_sends_nothing_and_proportional_looks_like_the_user(problem):
    kept = score(problem, identity(problem))
    assert kept.moved == 0
    np.testing.assert_allclose(kept.latency, effort(problem) * problem.counts.sum(1))
    shared = score(problem, proportional(problem))
    np.testing.assert_allclose(shared.imbalance, least_possible(problem), atol=1e-9)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(users())
def test_every_start_is_a_plan_and_some_leave_a_device_out(problem):
    plans, devices = start_plans(problem), len(problem.counts)
    np.testing.assert_allclose(plans.sum(3), np.broadcast_to(problem.counts, plans.shape[:3]))
    assert np.array_equal(plans[0], identity(problem)) and np.allclose(plans[1], proportional(problem))
    if devices > 2:
        assert [int(np.flatnonzero(plan.sum((0, 1)) == 0)[0]) for plan in plans[-devices:]] == list(range(devices))


@settings(deadline=None, derandomize=True, max_examples=40)
@given(users(), st.integers(0, 1000))
def test_rounding_keeps_rows(problem, seed):
    shares = np.random.default_rng(seed).dirichlet(np.ones(len(problem.counts)), problem.counts.T.shape)
    counts = problem.counts.T[None]
    plan = counts[..., None] * shares[None]
    for way in (round_plans, largest_remainder):
        whole = way(plan, counts)
        assert (whole >= 0).all() and (whole.sum(3) == counts).all()
        assert np.abs(whole - plan).max() < len(problem.counts) + 1
