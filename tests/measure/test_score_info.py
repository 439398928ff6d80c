"""How a score is called and read, and what guessing reaches."""

import numpy as np
import pytest

from fedfleet.core.kinds import IGNORED, KINDS
from fedfleet.measure.score_info import ScoreInfo, chance_level, score_info_of


def test_the_chance_level_of_sequences_leaves_out_places_that_do_not_count():
    assert chance_level(np.array([[1, 1, IGNORED], [2, IGNORED, IGNORED]])) == pytest.approx(2 / 3)
    assert chance_level(np.full((2, 2), IGNORED)) is None and chance_level(np.zeros((0, 1))) is None


@pytest.mark.parametrize("seed", range(5))
def test_the_chance_level_of_several_labels_is_the_best_constant_answer(seed):
    labels = np.random.default_rng(seed).random((40, 4)) < [0.7, 0.4, 0.2, 0.05]
    best = 0.0
    for answer in range(1, 16):
        given = np.tile([bool(answer >> k & 1) for k in range(4)], (40, 1))
        best = max(best, 2 * (given & labels).sum() / (given.sum() + labels.sum()))
    assert chance_level(labels) == pytest.approx(best)


def test_a_score_keeps_its_unit_and_sign():
    r2 = ScoreInfo(KINDS["regression"])
    assert r2.text(0.5) == "0.500" and r2.difference(-0.2) == "\N{MINUS SIGN}0.200"
    assert ScoreInfo().difference(-0.012, sign=False) == "\N{MINUS SIGN}1.2 points"


def test_metrics_of_an_older_or_damaged_folder_read_as_classification():
    assert score_info_of({"score": "R2", "chance": "x"}) == ScoreInfo()
    assert score_info_of({"score": ScoreInfo(KINDS["multilabel"]).to_dict(), "chance": 0.5}).chance == 0.5
