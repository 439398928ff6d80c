"""Regression tasks that ship with FedFleet."""

import numpy as np
import pytest

import fedfleet
from fedfleet.tasks.numbers import diabetes, halves, standardised


def test_columns_are_standardised():
    found = standardised(np.random.default_rng(0).normal(5, 3, (100, 2)))
    assert np.allclose(found.mean(0), 0, atol=1e-6) and np.allclose(found.std(0), 1, atol=1e-6)


def test_the_data_are_whole_and_in_known_units():
    data = diabetes()
    assert data.x.shape == (442, 10) and data.y.shape == (442, 1)
    mean, deviation = data.target_scale[0]
    assert mean == pytest.approx(152.133, abs=1e-3) and deviation == pytest.approx(77.005, abs=1e-3)
    assert halves().x.shape == halves().y.shape == (1797, 32)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("task", "lr"), [("diabetes_mlp", 0.1), ("digits_completion", 1.0)])
def test_a_short_run_predicts_better_than_the_mean(task, lr):
    spec = {"task": task, "world": {"clients": 10}, "pace": {"cohort": 5}, "stop": {"rounds": 10}, "algorithm": {"lr": lr}}
    found = fedfleet.run(spec, "run.execute=stacked").metrics
    assert found["score"]["name"] == "R2" and found["accuracy"] > 0.15
    assert found["measures"]["rmse"] >= found["measures"]["mae"] > 0
