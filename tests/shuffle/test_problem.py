"""A user's problem is checked where it enters."""

import math

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.shuffle.plans import identity
from fedfleet.shuffle.problem import link, problem_from, score
from tests.shuffle.users import user

GOOD = {
    "counts": [[4, 0], [1, 7]],
    "seconds_per_sample": [0.1, 0.2],
    "up_bps": [1e6, 2e6],
    "down_bps": [3e6, 4e6],
    "bits_per_sample": 1e6,
    "epochs": 5,
    "alpha": 2.0,
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"counts": [[4, -1], [1, 7]]}, "device 0, class 1"),
        ({"counts": [[4, 0], [1.5, 7]]}, "device 1, class 0"),
        ({"counts": [[4, 0], [float("nan"), 7]]}, "device 1, class 0"),
        ({"counts": [[4, True], [1, 7]]}, "device 0, class 1"),
        ({"counts": [[4, "2"], [1, 7]]}, "device 0, class 1"),
        ({"counts": [[4, 0], [1]]}, "device 1 has 1 classes"),
        ({"counts": []}, "no device"),
        ({"counts": [[], []]}, "no devices or no classes"),
        ({"counts": 7}, "one list of class counts per device"),
        ({"counts": [[0, 0], [0, 0]]}, "no device holds any sample"),
        ({"up_bps": [1e6, 0.0]}, "up_bps of device 1"),
        ({"down_bps": [-1.0, 1.0]}, "down_bps of device 0"),
        ({"down_bps": [1.0]}, "down_bps has 1 entries but counts has 2"),
        ({"up_bps": 1e6}, "up_bps must be a list"),
        ({"seconds_per_sample": [0.1, float("nan")]}, "seconds_per_sample of device 1"),
        ({"seconds_per_sample": [0.1, None]}, "seconds_per_sample of device 1"),
        ({"bits_per_sample": 0}, "bits_per_sample"),
        ({"epochs": -1}, "epochs"),
        ({"alpha": -1}, "alpha"),
        ({"alpha": float("inf")}, "alpha"),
        ({"alpha": "much"}, '"auto"'),
        ({"time_balance": 1}, "time_balance"),
        ({"epoch": 3}, "did you mean 'epochs'"),
    ],
)
def test_bad_input_says_what_and_where(change, words):
    with pytest.raises(BadInput) as caught:
        problem_from(GOOD | change)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_keys_are_named():
    for key in ("counts", "seconds_per_sample", "up_bps", "down_bps", "bits_per_sample", "alpha"):
        with pytest.raises(BadInput, match=key):
            problem_from({k: v for k, v in GOOD.items() if k != key})


def test_auto_alpha():
    problem = problem_from(GOOD | {"alpha": "auto"})
    worst = score(problem, identity(problem)).max_imbalance
    assert problem.alpha == pytest.approx(12 / (1 / 1.5 + 1 / 3.0) / worst)
    assert problem_from(GOOD | {"counts": [[3, 3], [2, 2]], "alpha": "auto"}).alpha == 0.0


def test_link_costs_nothing_at_home():
    problem = user(1, 5, 4, 60)
    assert (np.diag(link(problem)) == 0.0).all() and (link(problem)[~np.eye(4, dtype=bool)] > 0.0).all()


SMALL = {
    "counts": [[4, 0], [1, 7]],
    "seconds_per_sample": [0.1, 0.2],
    "up_bps": [1e6, 2e6],
    "down_bps": [3e6, 4e6],
    "bits_per_sample": 1e6,
    "epochs": 5,
    "alpha": 2.0,
}


def test_eq_7_by_hand():
    problem = problem_from(SMALL)
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
    plain, alone = problem_from(SMALL), problem_from(SMALL | {"time_balance": False})
    rooted = problem_from(SMALL | {"js_root": True})
    plan = identity(plain)
    got = score(plain, plan)
    assert score(alone, plan).objective == pytest.approx(got.objective - got.std_latency)
    assert score(rooted, plan).max_imbalance == pytest.approx(math.sqrt(got.max_imbalance))
