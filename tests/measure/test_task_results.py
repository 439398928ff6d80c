"""Where models of other kinds of tasks are right: bins add up, units are those of the label, nothing that is no number is kept."""

import json
from itertools import pairwise

import numpy as np
import pytest

from fedfleet.core.kinds import IGNORED
from fedfleet.measure.task_results import MOST_PAIRS, MOST_TOKENS, fit_results, label_results, token_results


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_errors_of_bins_make_the_error_of_all(outputs):
    rng = np.random.default_rng(0)
    true, guess = rng.normal(size=(200, outputs)), rng.normal(size=(200, outputs))
    found = fit_results(true, guess, [(5.0, 2.0)] * outputs, ["width"])
    bins = found["bins"]
    squares = sum(row["n"] * row["rmse"] ** 2 for row in bins)
    assert sum(row["n"] for row in bins) == true.size == found["numbers"]
    assert squares / true.size == pytest.approx(float(np.square(2.0 * (guess - true)).mean()), rel=1e-5)
    assert sum(row["n"] * row["bias"] for row in bins) / true.size == pytest.approx(2.0 * float((guess - true).mean()), abs=1e-5)
    assert all(a["high"] == b["low"] for a, b in pairwise(bins))
    assert [one["name"] for one in found.get("outputs", [])] == (["width", "output 1", "output 2"] if outputs > 1 else [])


def test_as_many_pairs_as_a_page_can_draw_and_no_more():
    y = np.arange(5000.0)[:, None]
    pairs = fit_results(y, y, [], [])["pairs"]
    assert len(pairs) == MOST_PAIRS and pairs[0] == [0.0, 0.0] and pairs[-1] == [4999.0, 4999.0]


def test_a_model_that_diverged_leaves_no_number_that_json_has_not():
    found = fit_results(np.zeros((3, 1)), np.array([[np.nan], [np.inf], [1.0]]), [], [])
    assert found["not_finite"] == 2 and json.loads(json.dumps(found, allow_nan=False))["bins"][0]["n"] == 1
    nothing = fit_results(np.zeros((2, 1)), np.full((2, 1), np.nan), [], [])
    assert nothing["pairs"] == [] == nothing["bins"]


def test_labels_that_all_have_or_none_are_no_division_by_zero():
    rows = label_results(np.array([[True, False], [True, False]]), np.array([[1.0, -1.0], [-1.0, -1.0]]), ["all"])
    assert rows[0]["label"] == "all" and rows[0]["recall"] == 0.5 and rows[0]["precision"] == 1.0
    assert (rows[1]["label"], rows[1]["recall"], rows[1]["f1"]) == (1, None, None)


def test_places_that_do_not_count_are_in_no_token():
    labels = np.array([[0, 1, IGNORED], [2, 2, 2]])
    rows = token_results(labels, np.array([[0, 0, 0], [2, 2, 1]]), [" ", "e", "x"])
    assert [(row["name"], row["n"]) for row in rows] == [("e", 1), ("x", 3), ("space", 1)]
    assert rows[0]["instead"] == "space" and rows[2]["instead"] is None
    assert token_results(np.full((1, 2), IGNORED), np.zeros((1, 2), int), []) == []
    many = np.arange(100)[None, :]
    assert len(token_results(many, many, [])) == MOST_TOKENS
