"""What a recommendation may aim at."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.app.studies.compare.criteria import AIMS, CRITERIA, Yardstick, accuracy_in_hand, check_aim, cost_to_target
from fedfleet.core.errors import BadInput
from tests.app.studies.compare.made import waiting


def test_every_aim_has_a_criterion_and_others_are_refused():
    assert set(AIMS) == set(CRITERIA) and check_aim("time") == "time"
    with pytest.raises(BadInput, match="fairness"):
        check_aim("fairnes")


def test_without_a_model_the_first_weights_are_in_hand_or_chance():
    run = waiting(1, (0.0, 0.12), (50.0, 0.8), first=50.0)
    assert (accuracy_in_hand(run, 20.0), accuracy_in_hand(run, 50.0), accuracy_in_hand(run, None)) == (0.12, 0.8, 0.8)
    assert accuracy_in_hand(waiting(1, end=9.0), None) == 0.1
    assert accuracy_in_hand(waiting(1, end=9.0, first=3.0), None) is None, "a model that nobody evaluated is not chance"


def test_costs_are_counted_until_the_target_and_differ_by_shares():
    run = replace(waiting(1, (1.0, 0.3), (2.0, 0.7), (3.0, 0.6)), traffic=np.array([10.0, 20.0, 30.0]))
    assert cost_to_target(run, "seconds", 0.6) == 2.0 and cost_to_target(run, "traffic", 0.6) == 20.0
    assert cost_to_target(run, "traffic", 0.9) is None and cost_to_target(run, "joules", 0.6) is None
    time = CRITERIA["time"]
    assert time.difference(time.score(10.0) - time.score(40.0)) == pytest.approx(0.75)
    assert CRITERIA["accuracy"].value(run, Yardstick(2.5)) == 0.7
