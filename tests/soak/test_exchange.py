"""Three hundred fuzzed users of every scale: full solves keep to their time, quick ones to 1.1 times the full objective."""

import time

import pytest

from benchmarks.exchange import RATIO, allowed, fuzzed
from fedfleet.shuffle import solve


@pytest.mark.parametrize("seed", range(1000, 1300))
def test_a_fuzzed_user(seed):
    problem = fuzzed(seed)
    began = time.process_time()
    full = solve(problem)
    assert time.process_time() - began <= allowed(problem)
    assert full.bound <= full.relaxed * (1 + 1e-12) and full.relaxed <= full.score.objective * (1 + 1e-5)
    assert full.integer_bound <= full.score.objective * (1 + 1e-12)
    assert full.relaxed - full.bound <= 0.01 * full.relaxed
    assert solve(problem, quick=True).score.objective <= RATIO * full.score.objective
