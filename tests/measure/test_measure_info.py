"""Measures have a label, a unit and a direction, by the kind of task."""

import pytest

from fedfleet.core.kinds import KINDS
from fedfleet.measure.measure_info import MEASURE_NAMES, main_measure, measure_info
from fedfleet.measure.score_info import ScoreInfo, kind_of_measures

R2, F1 = ScoreInfo(KINDS["regression"]), ScoreInfo(KINDS["multilabel"])


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_the_main_measure_is_one_of_its_kind_and_tells_the_kind(kind):
    main = main_measure(ScoreInfo(kind))
    assert (main is None) == (not kind.measures)
    assert main is None or (main.name in kind.measures and main.lower == (main.name in kind.lower))
    assert kind_of_measures(kind.measures) is kind


def test_every_measure_of_a_kind_has_a_label_and_the_direction_of_its_kind():
    for kind in KINDS.values():
        for name in kind.measures:
            info = measure_info(name, ScoreInfo(kind))
            assert (name in MEASURE_NAMES and info.lower == (name in kind.lower) and info.label != name) or name == "perplexity"


def test_only_shares_are_percentages_and_differ_by_points():
    assert measure_info("rmse", R2).text(0.5) == "0.5" and "%" not in measure_info("auroc", F1).text(0.9)
    assert (
        measure_info("accuracy", R2).difference(0.031) == "+0.031"
        and measure_info("accuracy", F1).difference(0.031) == "+3.1 points"
    )
    assert measure_info("exact_match", F1).text(0.5) == "50.0 %" and measure_info("rmse", R2).unit_of_differences == ""


def test_scores_of_clients_are_named_by_the_score():
    assert measure_info("accuracy_never", R2).label == "R2 for clients that never took part"
    assert measure_info("accuracy_std", F1).lower and not measure_info("accuracy_clients", F1).lower


def test_a_measure_of_the_persons_own_keeps_its_name_and_is_better_when_higher():
    info = measure_info("own.recall", R2)
    assert (info.label, info.lower, info.percent) == ("recall", False, False) and measure_info("own.rmse", ScoreInfo()).lower
