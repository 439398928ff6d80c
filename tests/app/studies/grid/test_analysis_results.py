"""What runs say is the textbook's statistic of their values, with failures counted and not hidden."""

from dataclasses import replace

import pytest

from fedfleet.app.studies.grid.analysis_results import arm_rows, check_analyses, conclusion, run_analyses
from fedfleet.core.errors import BadInput
from fedfleet.measure.statistics.paired_tests import paired_test
from tests.app.studies.tables import aims, asked, ran

A, B = "algorithm.lr=0.05", "algorithm.lr=0.1"


def rows(study, cells, **more):
    return {row["arm"]: row for row in arm_rows(study, cells, aims(**more))}


def test_a_row_has_the_means_of_its_runs_and_the_pairs_with_the_baseline():
    study = asked(seeds=3, baseline=A)
    result = rows(study, ran(study, [0.5, 0.6, 0.7, 0.6, 0.8, 0.85]))
    assert result[A]["accuracy"]["value"] == pytest.approx(0.6)
    assert result[A]["accuracy"]["sd"] == pytest.approx(0.1)
    assert result[A]["against"] is None
    known = paired_test([0.6, 0.8, 0.85], [0.5, 0.6, 0.7])
    got = result[B]["against"]
    assert (got["difference"], got["p"], got["p_holm"], got["n"]) == (known.difference, known.p, known.p, 3)
    assert result[B]["settings"] == {"algorithm.lr": 0.1}


def test_holm_counts_all_arms():
    study = asked(seeds=3, baseline="algorithm.lr=0.1", grid={"algorithm.lr": [0.1, 0.2, 0.3]})
    result = rows(study, ran(study, [0.5, 0.6, 0.7, 0.6, 0.72, 0.79, 0.55, 0.6, 0.9]))
    two, three = result["algorithm.lr=0.2"]["against"], result["algorithm.lr=0.3"]["against"]
    assert two["p"] < three["p"]
    assert (two["p_holm"], three["p_holm"]) == (pytest.approx(2 * two["p"]), max(three["p"], 2 * two["p"]))


def test_failed_runs_are_counted_with_their_reason_and_pairs_are_of_common_seeds():
    study = asked(seeds=3, baseline=A)
    result = rows(study, ran(study, [0.5, 0.6, None, None, 0.8, 0.85]))
    assert (result[A]["failed"], result[A]["reasons"], result[A]["accuracy"]["n"]) == (1, {"out of luck": 1}, 2)
    assert (result[B]["against"]["n"], result[B]["against"]["difference"]) == (1, pytest.approx(0.2))
    all_gone = rows(study, ran(study, [None] * 6))
    assert all_gone[A]["accuracy"] is None and all_gone[B]["against"]["difference"] is None


def test_times_to_the_target_know_who_never_got_there():
    study = asked(seeds=2, analysis=[{"kind": "time_to_accuracy", "target": 0.55}])
    cells = ran(study, [0.5, 0.6, 0.3, None])
    result = rows(study, cells, target=0.55)
    assert result[A]["time_to_target"] | {"restricted_mean": None} == {
        "target": 0.55, "median": 20.0, "restricted_mean": None, "horizon": 20.0, "reached": 1, "never": 1,
    }  # fmt: skip
    assert result[A]["time_to_target"]["restricted_mean"]["value"] == 20.0
    assert (result[B]["time_to_target"]["median"], result[B]["time_to_target"]["never"]) == (None, 2)
    (asked_for,) = run_analyses(study, cells, aims())
    assert asked_for["table"][0]["steps"] == [[20.0, 0.5]]
    assert asked_for["target"] == 0.55


def test_a_table_by_arm_by_key_and_across_two_keys():
    grid = {"algorithm.lr": [0.1, 0.2], "pace.cohort": [2, 4]}
    kinds = [
        {"kind": "table", "columns": ["accuracy"]},
        {"kind": "table", "columns": ["accuracy", "participation.never"], "rows": "pace.cohort"},
        {"kind": "table", "columns": ["accuracy"], "rows": "algorithm.lr", "across": "pace.cohort"},
    ]
    study = asked(seeds=1, grid=grid, analysis=kinds)
    by_arm, by_key, across = run_analyses(study, ran(study, [0.1, 0.2, 0.3, 0.4]), aims())
    assert [row["arm"] for row in by_arm["table"]] == [arm.name for arm in study.arms]
    assert [(row["pace.cohort"], row["accuracy"]["value"]) for row in by_key["table"]] == [
        (2, 0.2),
        (4, pytest.approx(0.3)),
    ]
    assert by_key["table"][0]["participation.never"]["value"] == 2
    assert across["columns"] == [2, 4]
    assert [[cell["value"] for cell in row["cells"]] for row in across["table"]] == [[0.1, 0.2], [0.3, 0.4]]


def test_a_correlation_is_over_runs_and_its_clusters_are_drawn_together():
    kinds = [{"kind": "pearson", "x": "algorithm.lr"}, {"kind": "spearman", "x": "algorithm.lr", "cluster": "seed"}]
    study = asked(seeds=4, analysis=kinds)
    pearson, spearman = run_analyses(study, ran(study, [0.5, 0.52, 0.54, 0.56, 0.7, 0.72, 0.74, None]), aims())
    assert (pearson["n"], pearson["clusters"], pearson["missing"]) == (7, 4, 1), "both arms of a seed have one fleet"
    assert pearson["r"] > 0.9 and pearson["low"] < pearson["r"] <= pearson["high"]
    assert (spearman["clusters"], spearman["method"]) == (4, "spearman")
    assert pearson["points"][0] == {"x": 0.05, "y": 0.5, "arm": A, "seed": 0}


def test_whole_fleets_are_redrawn_unless_another_cluster_is_named():
    def clustered(accuracies, **more):
        study = asked(**more)
        result = run_analyses(study, ran(study, accuracies), aims())[0]
        return result["cluster"], result["clusters"]

    rising = [0.5 + 0.01 * i for i in range(8)]
    one = [{"kind": "pearson", "x": "algorithm.lr"}]
    crossed = {"algorithm.lr": [0.05, 0.1], "seeds.fleet": [7, 8]}
    assert clustered(rising, seeds=4, analysis=one) == ("seeds.fleet", 4)
    assert clustered(rising, seeds=2, grid=crossed, analysis=one) == ("seeds.fleet", 2)
    named = [{**one[0], "cluster": "seeds.training"}]
    assert clustered(rising, seeds=4, grid={**crossed, "seeds.fleet": [7]}, analysis=named) == ("seeds.training", 4)
    alone = {
        "algorithm.lr": [0.05, 0.1],
        "seeds.fleet": [7],
    }  # one fleet for all: runs are told apart by what else is drawn
    assert clustered(rising, seeds=4, grid=alone, analysis=one) == (None, 8)
    assert clustered(rising[:4], seeds=4, grid={"algorithm.lr": [0.05]}, analysis=[{**one[0], "x": "bytes_up"}])[1] == 4


def test_a_paired_test_of_another_measure():
    study = asked(analysis=[{"kind": "paired_test", "metric": "bytes_up", "baseline": B}])
    (result,) = run_analyses(study, ran(study, [0.5, 0.6, 0.7, 0.8]), aims())
    assert [(row["arm"], row["difference"], row["p"]) for row in result["table"]] == [(A, 0.0, 1.0)]


@pytest.mark.parametrize(
    ("analysis", "said"),
    [
        ({"kind": "pearson", "x": "pace.use"}, r"analysis\[0\].x: 'pace.use' is 'readiness'"),
        ({"kind": "pearson", "x": "pace.secnds"}, r"analysis\[0\].x: no spec of this study has the key 'pace.secnds'"),
        ({"kind": "table", "rows": "pace.secnds"}, r"analysis\[0\]: no spec of this study has the key 'pace.secnds'"),
    ],
)
def test_what_no_run_could_answer_is_told_before_the_first(analysis, said):
    study = asked(analysis=[analysis])
    with pytest.raises(BadInput, match=said):
        check_analyses(study, ran(study, [None] * 4), aims(None))


def test_what_only_runs_can_answer_is_not_refused():
    study = asked(analysis=[{"kind": "pearson", "x": "participation.never"}, {"kind": "table", "rows": "algorithm.lr"}])
    check_analyses(study, ran(study, [None] * 4), aims(None))


def test_the_conclusion_names_a_winner_only_with_seeds_enough_and_says_what_failed():
    three = asked(seeds=3)
    clear = conclusion(ran(three, [0.5, 0.52, 0.51, 0.8, 0.83, 0.81]))
    assert clear.startswith(f"The winner is '{B}': ")
    assert "The winner is" not in conclusion(ran(asked(seeds=1), [0.5, 0.8]))
    some = conclusion(ran(three, [0.5, 0.52, 0.51, 0.8, None, 0.81]))
    assert some.endswith("1 of 6 runs made no model and are not in the comparison; most often: out of luck.")
    assert conclusion(ran(three, [None] * 6)) == "6 of 6 runs made no model; most often: out of luck."


def test_whoever_lost_runs_wins_nothing_however_good_the_others_are():
    five = asked(seeds=5)
    low, high = [0.5, 0.52, 0.51, 0.53, 0.5], [0.8, 0.83, 0.81, 0.84, 0.82]
    assert conclusion(ran(five, [*low, *high])).startswith(f"The winner is '{B}'")
    cells = ran(five, [*low, *high])
    bare = [replace(c, reason="no model was made") if c.cell.arm == B and c.cell.seed < 2 else c for c in cells]
    said = conclusion(bare)
    assert said.startswith("No winner") and f"'{B}'" in said.partition(":")[0], said
    nobody = [replace(c, reason="no model was made") if c.cell.arm == B else c for c in cells]
    assert conclusion(nobody).startswith(f"The winner is '{A}': it reached 51.2 %") and "made no model" in conclusion(nobody)


def test_runs_on_few_fleets_tell_of_few_fleets():
    study = asked(seeds=4, baseline=A, grid={"algorithm.lr": [0.05, 0.1], "seeds.fleet": [7, 8]})
    # The second arm gains 1 point on one fleet and 9 on the other, with every seed nearly alike.
    gains = [g + e for e in (0.0, 0.001, -0.001, 0.002) for g in (0.01, 0.09)]
    cells = ran(study, [0.5] * 8 + [0.5 + gain for gain in gains])
    result = rows(study, cells)[B]
    assert (result["against"]["n"], result["against"]["unit"]) == (2, "fleets") and result["against"]["p"] > 0.2
    assert result["accuracy"]["low"] < 0.3 and result["accuracy"]["n"] == 8
    assert "No winner" in conclusion(cells)


@pytest.mark.parametrize(
    ("analysis", "word"),
    [
        ({"kind": "table", "columns": ["accuracy", "pace.use"]}, "not a number"),
        ({"kind": "table", "columns": ["pace.secnds"]}, "no spec of this study has the key"),
        ({"kind": "paired_test", "metric": "task.use", "baseline": A}, "not a number"),
    ],
)
def test_columns_that_no_run_could_fill_are_told_before_the_first_starts(analysis, word):
    study = asked(analysis=[analysis])
    with pytest.raises(BadInput, match=word):
        check_analyses(study, [replace(one, run=None, reason=None) for one in ran(study, [0.5] * 4)], aims())


def test_a_study_that_failed_altogether_has_its_tables_all_the_same():
    study = asked(analysis=[{"kind": "pearson", "x": "algorithm.lr"}, {"kind": "spearman", "x": "algorithm.lr", "y": "loss"}])
    for cells in (ran(study, [None] * 4), ran(study, [0.5] * 4, loss=float("inf"))):
        result = run_analyses(study, cells, aims())[-1]
        assert (result["r"], result["n"], result["missing"], result["points"]) == (None, 0, 4, [])


def test_arms_with_a_fleet_of_their_own_are_no_pairs():
    own = [{"name": "a", "seeds": {"fleet": 7}}, {"name": "b", "seeds": {"fleet": 8}}]
    study = asked(seeds=3, baseline="a", grid={}, runs=own)
    result = rows(study, ran(study, [0.5, 0.6, 0.7, 0.6, 0.8, 0.85]))["b"]["against"]
    assert (result["n"], result["p"]) == (0, None), "no seed of them has one fleet"
