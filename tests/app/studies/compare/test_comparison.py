"""The whole comparison of folders, and its JSON."""

import json

import pytest

from fedfleet.app.studies.compare import answer_of, compare, comparison
from fedfleet.app.studies.compare.comparison import json_value
from tests.app.studies.compare.made import hurried, made, waiting


def test_the_contract_and_more(small_runs):
    result = compare([small_runs.study])
    told = json.loads(json.dumps(answer_of(result), allow_nan=False))
    assert {"differs", "runs", "verdict"} <= told.keys() and "seed" in told["differs"]
    assert [arm["name"] for arm in told["arms"]] == ["deadline", "readiness"]
    assert [len(arm["seeds"]) for arm in told["arms"]] == [1, 2]
    assert all(len(values) == len(told["runs"]) == 3 for values in told["differs"].values())
    assert [run["arm"] for run in told["runs"]] == ["deadline", "readiness", "readiness"]
    assert told["winner"] is None and not told["sure"] and "one common seed" in told["verdict"]
    assert told["at_equal_time"]["seconds"] == min(run["virtual_seconds"] for run in told["runs"])
    assert told["differs"]["pace.lease"][-1] == "inf", "JSON has no infinity"


def test_killed_failed_and_finished_runs_stand_side_by_side(small_runs):
    told = answer_of(compare([small_runs.wait1, small_runs.half, small_runs.bare]))
    notes = " ".join(told["caveats"])
    assert "unfinished" in notes and "half" in notes and "made no model: bare" in notes
    assert told["arms"][-1]["at_end"]["nothing"] and told["runs"][1]["ended"] is False
    assert told["winner"] is None


def test_the_order_of_runs_is_that_of_the_question():
    runs = [hurried(2, (10.0, 0.5)), waiting(1, (10.0, 0.6)), hurried(1, (10.0, 0.4))]
    told = answer_of(comparison(runs))
    assert [run["name"] for run in told["runs"]] == ["deadline-2", "readiness-1", "deadline-1"]
    assert told["differs"]["seed"] == [2, 1, 1]


def test_figures_of_an_arm_are_means_over_its_seeds():
    runs = [
        waiting(1, (10.0, 0.5), end=10.0),
        waiting(2, (10.0, 0.7), end=30.0, metrics={"bytes_up": 1500.0}),
        hurried(1, (10.0, 0.2)),
    ]
    first = answer_of(comparison(runs, target=0.6))["arms"][0]
    assert (first["virtual_seconds"], first["bytes_up"], first["at_end"]["mean"]["value"]) == (
        20.0,
        1000.0,
        pytest.approx(0.6),
    )
    assert first["time_to_target"]["reached"] == 1


def test_unlike_tasks_still_list_their_differences():
    told = answer_of(comparison([made(1), made(2, task={"use": "cifar_cnn"}, name="other")]))
    assert "cannot be compared" in told["verdict"] and {"seed", "task.use"} <= told["differs"].keys()


def test_values_of_specs_become_json():
    assert json_value([float("inf"), {"a": [1.5]}, None, -float("inf"), "x"]) == [
        "inf",
        {"a": [1.5]},
        None,
        "-inf",
        "x",
    ]
