"""The whole comparison of folders, and its JSON."""

import json
from dataclasses import replace

import pytest

from fedfleet.app.studies.compare import answer_of, compare, comparison
from fedfleet.app.studies.compare.comparison import comparison_text, json_value, refuse_unlike_scores
from fedfleet.core.errors import BadInput
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
    assert told["recommendation"]["sentence"] == told["verdict"] and told["recommendation"]["decided"] is False
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


def test_arms_are_rows_with_units_and_the_verdict_follows():
    runs = [waiting(s, (3600.0, 0.5), (36_000.0, 0.9 + s / 100)) for s in (1, 2, 3)]
    runs += [hurried(s, (600.0, 0.2), (7200.0, 0.4 + s / 90)) for s in (1, 2, 3)]
    text = comparison_text(answer_of(comparison(runs)))
    lines = text.splitlines()
    assert "accuracy at the end" in lines[0] and "at 2.0 h" in lines[0] and "time to 80.0 %" in lines[0]
    assert lines[1].startswith("readiness") and "92.0 % (89.5 to 94.5)" in lines[1] and "10.0 h" in lines[1]
    assert lines[2].startswith("deadline") and "never" in lines[2] and "1.5 kB" in lines[2]
    assert len({len(line) for line in lines[:3]}) == 1, "columns stand below each other"
    assert "  seed          1, 2, 3" in lines and "Use 'readiness': it reaches 50.0 % after 2.0 h" in text and "note: " in text
    assert "95 % interval" in lines[3]


def test_missing_figures_are_words():
    text = comparison_text(answer_of(comparison([waiting(1, (10.0, 0.5)), hurried(1, end=40.0)])))
    assert "no model" in text and "None" not in text and "interval;" not in text
    bare = comparison_text(answer_of(comparison([waiting(1, end=3.0, metrics={"chance": None}), hurried(1, end=3.0, first=1.0)])))
    assert "nothing to compare" in bare and "to a target" in bare


def test_many_and_long_differences_are_cut_and_say_so():
    runs = [made(i, name=str(i), world={f"k{j}": "x" * 90 + str(i) for j in range(20)}) for i in (1, 2)]
    text = comparison_text(answer_of(comparison(runs)))
    assert "and 9 more keys; --json has all" in text and max(map(len, text.split("\n\n")[1].splitlines())) < 90
    assert "do not differ" in comparison_text(answer_of(comparison([made(1, name="a"), made(1, name="b")])))


def test_a_page_is_named():
    answer = answer_of(comparison([waiting(1), hurried(1)])) | {"page": "compare.html"}
    assert comparison_text(answer).endswith("page: compare.html")


def test_times_are_named_by_the_clock_that_showed_them():
    one, other = waiting(1, (100.0, 0.5), name="a"), replace(waiting(1, (9.0, 0.5), name="b"), served=True)
    both = comparison_text(answer_of(comparison([one, other]))).splitlines()
    assert "virtual time" not in both[0] and both[1].startswith("simulated") and "1.7 min virtual" in both[1]
    assert both[2].startswith("served") and "9 s real" in both[2]
    assert "real time" in comparison_text(answer_of(comparison([other, replace(other, name="c", seed=2)]))).splitlines()[0]


def test_runs_of_unlike_scores_are_refused():
    runs = [made(1), made(2, metrics={"score": {"kind": "regression"}}, name="served")]
    with pytest.raises(BadInput) as refused:
        refuse_unlike_scores(runs)
    assert "readiness-1 by its accuracy (classification) and served by its R2 (regression)" in str(refused.value)
    refuse_unlike_scores([made(1), made(2)])
