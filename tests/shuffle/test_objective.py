"""The objective is Eq. (7), term by term."""

import math

import numpy as np
import pytest

from fedfleet.shuffle.objective import score
from fedfleet.shuffle.problem import problem_from
from fedfleet.shuffle.simple_plans import identity

GOOD = {
    "counts": [[4, 0], [1, 7]],
    "seconds_per_sample": [0.1, 0.2],
    "up_bps": [1e6, 2e6],
    "down_bps": [3e6, 4e6],
    "bits_per_sample": 1e6,
    "epochs": 5,
    "alpha": 2.0,
}


def test_eq_7_by_hand():
    problem = problem_from(GOOD)
    plan = identity(problem)
    plan[0, 0, 0], plan[0, 0, 1] = 3, 1
    got = score(problem, plan)
    hop = 1e6 * (1 / 1e6 + 1 / 4e6)
    assert got.latency == pytest.approx([3 * 15 * 0.1 + hop, 9 * 15 * 0.2 + hop])
    assert got.moved == 1
    p = np.array([2 / 9, 7 / 9])
    m = (p + 0.5) / 2
    by_hand = 0.5 * (p * np.log(p / m)).sum() + 0.5 * (0.5 * np.log(0.5 / m)).sum()
    assert got.imbalance[1] == pytest.approx(by_hand)
    assert got.objective == pytest.approx(got.latency.max() + got.latency.std() + 2.0 * got.imbalance.max())


def test_the_deviation_can_be_left_out_and_the_root_taken():
    plain, alone = problem_from(GOOD), problem_from(GOOD | {"time_balance": False})
    rooted = problem_from(GOOD | {"js_root": True})
    plan = identity(plain)
    got = score(plain, plan)
    assert score(alone, plan).objective == pytest.approx(got.objective - got.std_latency)
    assert score(rooted, plan).max_imbalance == pytest.approx(math.sqrt(got.max_imbalance))
