"""Means, times that were not reached, and honest winners."""

import csv
import io

import pytest

from studies.comparing import Mean, Outcome, cell_of, comma_separated, interval, markdown, verdict


def cell(selector, times, *, policy="deadline", accuracies=None, horizon=100.0):
    ends = accuracies or [0.5] * len(times)
    got = [Outcome(a, t, 10, 1.0) for a, t in zip(ends, times, strict=True)]
    return cell_of(("digits", "mild", selector, policy), got, target=0.8, horizon=horizon)


def test_an_interval_is_students_and_within_what_is_possible():
    result = interval([10.0, 12.0, 14.0], 0.0, 100.0)
    assert result.value == 12.0 and result.high - 12.0 == pytest.approx(4.302653 * 2 / 3**0.5, rel=1e-5)
    assert interval([0.0, 1.0], 0.0, 1.0) == Mean(0.5, 0.0, 1.0)
    assert interval([0.3], 0.0, 1.0) == Mean(0.3, 0.0, 1.0), "one seed says nothing about others"


def test_a_run_that_does_not_get_there_counts_as_the_horizon_and_is_marked():
    result = cell("uniform", [10.0, None, 130.0])
    assert result.time.value == 70.0 and result.late == 2
    text = markdown([result], seeds=3, seconds=60.0)
    assert "†2" in text and "never" not in text
    assert "never†3" in markdown([cell("uniform", [None] * 3)], seeds=3, seconds=60.0)


def test_there_is_a_winner_only_if_its_interval_is_clear_of_all_others():
    fast, close, slow = cell("oort", [10.0, 11, 12]), cell("tifl", [11.0, 12, 13]), cell("uniform", [50.0, 51, 52])
    assert verdict([fast, slow], by_time=True) == "oort wins"
    assert verdict([fast, close, slow], by_time=True).startswith("no winner: oort has the best mean, and cannot be told from tifl")
    assert verdict([cell("oort", [None] * 3)], by_time=True) == "nobody reached the target"
    assert verdict([cell("oort", [None] * 3), slow], by_time=True) == "only uniform"


def test_more_accuracy_is_better_and_less_time_is():
    high, low = (
        cell("oort", [50.0, 51, 52], accuracies=[0.9, 0.91, 0.92]),
        cell("uniform", [10.0, 11, 12], accuracies=[0.5, 0.51, 0.52]),
    )
    assert verdict([high, low], by_time=False) == "oort wins" and verdict([high, low], by_time=True) == "uniform wins"


def test_a_pair_that_does_not_fit_is_empty_with_its_reason():
    empty = cell_of(("digits", "mild", "tifl", "buffered"), [Outcome(refused="tiers need rounds")] * 3, target=0.8, horizon=9.0)
    cells = [empty, cell("uniform", [1.0, 2.0, 3.0], policy="buffered")]
    text = markdown(cells, seeds=3, seconds=1.0)
    assert "| tifl | (1) |" in text and "1. tiers need rounds" in text
    rows = list(csv.DictReader(io.StringIO(comma_separated(cells))))
    assert rows[0]["reason"] == "tiers need rounds" and rows[0]["time"] == "" and float(rows[1]["time"]) == 2.0
    assert verdict([empty], by_time=False) == "there is nothing to compare"
