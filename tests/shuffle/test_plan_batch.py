"""Plans side by side: each has the objective that it has alone."""

import numpy as np
import pytest
from hypothesis import given, settings

from fedfleet.shuffle.divergence import imbalance
from fedfleet.shuffle.plan_batch import objectives, sample_costs, take_plans, unevenness
from fedfleet.shuffle.plans import identity, largest_remainder, proportional
from fedfleet.shuffle.problem import effort, link, score
from tests.shuffle.users import batch_at, user, users


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
