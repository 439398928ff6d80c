"""Bundles: priced truly, never more than there is, and a way out where no single sample helps."""

import numpy as np
import pytest
from hypothesis import given, settings

from fedfleet.shuffle.bundles import SHARES, best_bundle
from fedfleet.shuffle.objective import score
from fedfleet.shuffle.simple_plans import identity
from fedfleet.shuffle.whole_plans import batch_of
from tests.shuffle.users import users


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
