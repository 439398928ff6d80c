"""A target is a score or a limit of a measure, and is reached from its own side."""

import numpy as np
import pytest

from fedfleet.core.kinds import KINDS
from fedfleet.measure.goal import evaluations_at, plain_target, target_of, target_text
from fedfleet.measure.score_info import ScoreInfo

RMSE = np.array([5.0, np.nan, 3.5, 3.6, 3.0])
SCORES = np.array([0.1, 0.2, 0.5, 0.4, 0.6])


@pytest.mark.parametrize(
    ("target", "at"),
    [(0.5, [2, 4]), ("rmse <= 3.5", [2, 4]), ("rmse >= 4", [0]), ("r2 >= 0.6", [4]), ("accuracy <= 0.1", [0]),
     ("own.rmse <= 3.2", [4]), ("recall >= 0.1", []), ("no target", [])],
)  # fmt: skip
def test_evaluations_that_are_at_a_target(target, at):
    assert evaluations_at(target, SCORES, {"rmse": RMSE}).tolist() == at


def test_the_stop_table_has_one_target_in_either_key():
    assert target_of({"target": "f1 >= 0.7"}) == 0.7 == plain_target("score >= 0.7")
    assert target_of({"target_accuracy": 0.4, "target": None}) == 0.4 and target_of({"target_accuracy": None}) is None


def test_targets_in_words_name_their_measure_and_unit():
    r2, f1 = ScoreInfo(KINDS["regression"]), ScoreInfo(KINDS["multilabel"])
    assert target_text(0.5, ScoreInfo()) == "50.0 %" and target_text(0.5, f1) == "F1 50.0 %"
    assert target_text("mae <= 60", r2) == "an MAE of at most 60" and target_text("exact_match >= 0.5", f1).endswith(
        "at least 50.0 %"
    )
    assert target_text("r2 <= -0.5", r2) == "an R2 of at most \N{MINUS SIGN}0.500"
