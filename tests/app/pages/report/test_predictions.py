"""Where a model of another kind of task is right and wrong, in words and pictures."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.app.pages.report.predictions import predictions_section, quoted
from fedfleet.core.kinds import KINDS
from fedfleet.measure.score_info import ScoreInfo
from fedfleet.measure.task_results import fit_results, label_results, token_results
from tests.app.pages.report.logs import facts_of, journal

LOG = journal([([0], [])] * 3, clients=2)


def section(kind, found, **more):
    """The section of a run of this kind with these results."""
    f = facts_of(LOG)
    return "".join(
        predictions_section(
            replace(f, metrics={**f.metrics, "score": ScoreInfo(KINDS[kind]).to_dict(), "task_results": found, **more})
        )
    )


def test_numbers_are_drawn_against_the_line_on_which_they_are_equal():
    true = np.linspace(0, 100, 50)[:, None]
    text = section("regression", fit_results(true, 0.5 * true, [], []))
    assert "predicted = true" in text and "too low on average" in text
    assert text.count("<circle") == 100, "a dot for each pair, on wide and on slim sheets"
    assert "87.5 to 100.0" in text and "nan" not in text and "%" not in text.split("<figure")[0]


def test_predictions_far_outside_are_drawn_at_the_edge_and_counted():
    true, guess = np.linspace(0, 1, 20)[:, None], np.full((20, 1), 1e9)
    assert "20 predictions lie outside" in section("regression", fit_results(true, guess, [], []))
    assert section("regression", fit_results(true, np.full((20, 1), np.nan), [], [])) == ""


def test_each_label_has_its_f1_and_names_are_escaped():
    labels = np.array([[True, False], [True, True], [False, True]])
    text = section("multilabel", label_results(labels, np.where(labels, 1.0, -1.0) * [1, -1], ["<b>", "rare"]))
    assert "&lt;b&gt;" in text and "<b>'" not in text and "Label 'rare' has the lowest F1, 0 %" in text.replace("&#x27;", "'")


def test_tokens_are_named_with_what_stands_instead():
    labels, answers = np.array([[0, 0, 1, 1, 1]]), np.array([[0, 0, 0, 0, 1]])
    text = section("next_token", token_results(labels, answers, [" ", "<"])).replace("&#x27;", "'")
    assert "'&lt;'" in text and "33 % of 3" in text and "space instead" in text
    assert quoted("line end") == "line end" and quoted("-") == "-"


@pytest.mark.parametrize("kind", KINDS)
def test_without_results_or_a_model_there_is_no_section(kind):
    assert section(kind, None) == ""
    assert section(kind, label_results(np.eye(2) > 0, np.eye(2), []), commits=0) == ""
