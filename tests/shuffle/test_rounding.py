"""Rounding to whole samples keeps every row's sum and stays near the real plan."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.shuffle.rounding import largest_remainder, round_plans
from tests.shuffle.users import users


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
