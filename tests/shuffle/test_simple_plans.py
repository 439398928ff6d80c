"""Plans that need no solver: what they keep and what they even out."""

import numpy as np
from hypothesis import given, settings

from fedfleet.shuffle.objective import score
from fedfleet.shuffle.problem import effort, least_possible
from fedfleet.shuffle.simple_plans import identity, proportional
from tests.shuffle.users import users


@settings(deadline=None, derandomize=True, max_examples=60)
@given(users())
def test_identity_sends_nothing_and_proportional_looks_like_the_user(problem):
    kept = score(problem, identity(problem))
    assert kept.moved == 0
    np.testing.assert_allclose(kept.latency, effort(problem) * problem.counts.sum(1))
    shared = score(problem, proportional(problem))
    np.testing.assert_allclose(shared.imbalance, least_possible(problem), atol=1e-9)
