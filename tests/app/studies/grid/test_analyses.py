"""Analyses are complete when they are checked, and refer to what there is."""

import pytest

from fedfleet.app.studies.grid.analyses import ShareOfBest, check_analysis, check_quantity, check_target, parse_target
from fedfleet.core.errors import BadInput


def test_what_is_left_out_is_filled_in():
    result = check_analysis({"kind": "table"}, "analysis[0]", ["a"])
    assert (result.settings["rows"], result.settings["across"]) == ("arm", None)
    assert result.settings["columns"][0] == "accuracy"
    result = check_analysis({"kind": "spearman", "x": "measure.DevMC-R", "title": "hard?"}, "analysis[0]", [])
    assert (result.settings["y"], result.title) == ("accuracy", "hard?")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "analysis[3] needs kind = .."),
        ({"kind": "table", "colums": []}, "analysis[3] has no key 'colums'; did you mean 'columns'?"),
        ({"kind": "table", "columns": ["acuracy"]}, "analysis[3].columns: 'acuracy' is neither a measure of a run"),
        ({"kind": "pearson", "x": "measure.DevMC"}, "fleets have no metric 'DevMC'; did you mean 'DevMC-"),
        ({"kind": "pearson", "x": "speed"}, "analysis[3].x: 'speed' is neither a measure of a run"),
        ({"kind": "paired_test", "baseline": "b"}, "analysis[3].baseline: 'b' is not an arm of this study"),
        ({"kind": "time_to_accuracy", "target": 2.0}, "analysis[3].target = 2.0: write an accuracy between 0 and 1"),
        ({"kind": "table", "title": 3}, "analysis[3].title = 3 is not a text"),
    ],
)
def test_what_is_wrong_is_named(given, said):
    with pytest.raises(BadInput) as wrong:
        check_analysis(given, "analysis[3]", ["a"])
    assert said in str(wrong.value)


@pytest.mark.parametrize("name", ["accuracy", "participation.never", "pace.seconds", "seeds.fleet", "seed", "measure.InterMC-T"])
def test_measures_spec_keys_and_metrics_are_quantities(name):
    check_quantity(name, "x")


def test_targets():
    assert check_target(1, "target", []) == 1.0
    assert check_target("0.9 of best of a b", "target", ["a b"]) == "0.9 of best of a b"
    assert parse_target(".5 of best of x") == ShareOfBest(0.5, "x")
    assert parse_target("half of it") is None
    for wrong in (0, 0.0, -1, True, "half of it", "1.5 of best of a", [0.5]):
        with pytest.raises(BadInput, match="write an accuracy"):
            check_target(wrong, "target", ["a"])


@pytest.mark.parametrize(
    ("key", "name", "word"),
    [
        ("columns", "warnings", "not a number"),
        ("columns", "stopped_by", "not a number"),
        ("metric", "curve", "not a number"),
        ("y", "staleness", "not a number"),
        ("columns", "utilisation", "utilisation has several values"),
        ("columns", "participation.nevr", "did you mean 'never'"),
        ("x", "time_to.0.52", "did you mean"),
        ("columns", "commits.mean", "is a number"),
    ],
)
def test_what_is_no_number_is_refused_before_anything_runs(key, name, word):
    kind = {"columns": "table", "metric": "paired_test", "y": "pearson", "x": "pearson"}[key]
    more = {"x": "algorithm.lr"} if key == "y" else {}
    with pytest.raises(BadInput, match=word):
        check_analysis({"kind": kind, **more, key: [name] if key == "columns" else name}, "analysis[0]", ["a"])


@pytest.mark.parametrize("name", ["loss", "time_to.0.8", "participation.never", "failed_rounds.no", "energy.joules", "bytes"])
def test_numbers_and_what_only_runs_can_tell_are_taken(name):
    assert check_analysis({"kind": "table", "columns": [name]}, "analysis[0]", ["a"]).settings["columns"] == [name]
