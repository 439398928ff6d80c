"""The analyses of a study on its page."""

import pytest

from fedfleet.app.pages.sides.analysis_sections import (
    analysis_section,
    difference_cell,
    mean_cell,
    value_axis,
    value_text,
)

MEAN = {"value": 0.9, "sd": 0.01, "low": 0.88, "high": 0.92, "n": 3}


def test_a_table_has_units_and_intervals():
    page = analysis_section(
        {
            "kind": "table",
            "title": "t<",
            "rows": "arm",
            "columns": ["accuracy", "virtual_seconds"],
            "table": [{"arm": "a", "accuracy": MEAN, "virtual_seconds": None}],
        },
        {},
    )
    assert "90.0\u00a0%</b>" in page and "88.0 to 92.0\u00a0%" in page and "virtual time" in page and "T&lt;" in page


def test_a_second_key_goes_across():
    page = analysis_section(
        {
            "kind": "table",
            "title": "t",
            "rows": "arm",
            "across": "algorithm.lr",
            "value": "accuracy",
            "columns": [0.1, 0.5],
            "table": [{"arm": "a", "cells": [MEAN, None]}],
        },
        {},
    )
    assert "algorithm.lr 0.1" in page and ">-<" in page


@pytest.mark.parametrize("kind", ["pearson", "spearman"])
def test_a_correlation_is_said_with_its_interval_and_drawn(kind):
    points = [{"x": float(i), "y": 0.1 * i, "arm": "a", "seed": i} for i in range(5)]
    result = {
        "kind": kind,
        "title": "t",
        "x": "virtual_seconds",
        "y": "accuracy",
        "cluster": "seeds.fleet",
        "r": 0.93,
        "low": 0.8,
        "high": 0.97,
        "n": 5,
        "clusters": 2,
        "method": kind,
        "missing": 0,
        "points": points,
    }
    page = analysis_section(result, {"a": 2})
    facts = ("is 0.93", "95 % interval 0.80 to 0.97", "5 runs of 2 clusters (seeds.fleet)")
    assert all(fact in page for fact in facts)
    assert page.count("<circle") == 10 and "a2 see" in page
    none = {**result, "low": None, "high": None}
    assert "no interval, which needs 4 clusters at least;" in analysis_section(none, {})
    assert "(no interval;" in analysis_section({**none, "clusters": 4}, {}), "most of what is redrawn has no r"


def test_times_count_those_who_never_got_there():
    rows = [
        {"arm": "a", "median": None, "restricted_mean": None, "reached": 1, "never": 2, "steps": [[60.0, 0.67]]},
        {
            "arm": "b",
            "median": 80.0,
            "restricted_mean": MEAN | {"value": 80.0},
            "reached": 3,
            "never": 0,
            "steps": [[60.0, 0.6], [90.0, 0.3], [99.0, 0.0]],
        },
    ]
    page = analysis_section({"kind": "time_to_accuracy", "title": "t", "target": 0.8, "table": rows}, {"b": 3})
    assert ">never<" in page and "1 of 3" in page and "80\u00a0s" in page and page.count("<svg") == 2
    assert "has no accuracy" in analysis_section({"kind": "time_to_accuracy", "title": "t", "target": None, "table": []}, {})


def test_paired_tests_are_in_points():
    row = {"arm": "b", "difference": -0.1, "low": -0.2, "high": 0.01, "p": 0.0004, "p_holm": 0.03, "n": 4}
    page = analysis_section({"kind": "paired_test", "title": "t", "metric": "accuracy", "baseline": "a", "table": [row]}, {})
    assert "-10.0\u00a0points" in page and "&lt; 0.001" in page and "0.03" in page
    assert ">4 seeds<" in page
    few = {
        "kind": "paired_test",
        "title": "t",
        "metric": "accuracy",
        "baseline": "a",
        "table": [{**row, "unit": "fleets"}],
    }
    assert ">4 fleets<" in analysis_section(few, {}), "the test is of fleets where seeds share them"
    assert difference_cell("accuracy", {"difference": None}) == "no common seeds"


def test_units_follow_names():
    assert value_text("time_to_target", 7200.0) == "2 h" and value_text("accuracy_bottom10", 0.5) == "50.0 %"
    assert mean_cell("commits", None) == "-" and mean_cell("commits", {**MEAN, "low": None}) == "<b>0.9</b>"
    assert value_axis("accuracy", [0.2]).high == 1.0 and value_axis("x", [5.0, 5.0]).low < 5.0 < value_axis("x", [5.0, 5.0]).high
