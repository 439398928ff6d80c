"""A user's problem is checked where it enters."""

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.shuffle.objective import score
from fedfleet.shuffle.problem import link, problem_from
from fedfleet.shuffle.simple_plans import identity
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
        ({"counts": [[], []]}, "no device or no class"),
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
