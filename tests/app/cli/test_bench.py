"""`fedfleet bench`."""

import json

from tests.app.specs import refused

SMALL = ("--task", "mlp", "--cohort", 3, "--steps", 2, "--batch", 4)


def test_bench_train_answers_by_the_contract(fedfleet):
    code, out, err = fedfleet("bench", "train", *SMALL, "--form", "loop", "--json")
    assert (code, err) == (0, "")
    wanted = {"naive_seconds", "stacked_seconds", "ratio", "max_abs_difference", "max_rel_difference"}
    assert wanted <= set(json.loads(out))


def test_bad_input(fedfleet):
    refused(fedfleet("bench", "train", "--form", "looop"), "--form", "did you mean 'loop'")
    refused(fedfleet("bench", "train", "--device", "gpu"), "--device")
    refused(fedfleet("bench", "train", "--task", "mpl"), "did you mean 'mlp'")
    refused(fedfleet("bench", "train", "--cohort", 0), "--cohort")
