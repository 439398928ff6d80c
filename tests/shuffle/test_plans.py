"""Simple plans are what they say; rounding to whole samples keeps the sum of every row and stays near the real plan."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.shuffle.divergence import imbalance
from fedfleet.shuffle.plans import (
    identity,
    largest_remainder,
    objectives,
    proportional,
    round_plans,
    sample_costs,
    start_plans,
    take_plans,
    unevenness,
)
from fedfleet.shuffle.problem import effort, link, score
from tests.shuffle.users import batch_at, least_possible, user, users


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


@settings(deadline=None, derandomize=True, max_examples=40)
@given(users())
def test_a_batch_has_the_objective_of_each_plan(problem):
    shared = largest_remainder(proportional(problem)[None], problem.counts[None])[0]
    both = batch_at(problem, identity(problem), shared)
    assert objectives(both).tolist() == pytest.approx([score(problem, plan).objective for plan in (identity(problem), shared)])
    assert objectives(take_plans(both, np.array([1])))[0] == objectives(both)[1]
    x = both.plan.sum(2).astype(float)
    np.testing.assert_allclose(unevenness(x), imbalance(x), atol=1e-12)


def test_a_sample_costs_both_ends_its_way_and_its_holder_the_training():
    problem = user(3, 4, 3, 40)
    costs = sample_costs(batch_at(problem, identity(problem)))[:, 0]  # [device, from, to]
    ways, work = link(problem), effort(problem)
    assert costs[:, 0, 1].tolist() == pytest.approx([ways[0, 1], ways[0, 1] + work[1], 0.0])
    assert costs[:, 2, 2].tolist() == pytest.approx([0.0, 0.0, work[2]])
