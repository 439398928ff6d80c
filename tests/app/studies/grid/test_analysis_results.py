"""What runs say is the textbook's statistic of their values, with failures counted and not hidden."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from fedfleet.app.studies.grid.analysis_results import arm_rows, check_analyses, conclusion, run_analyses, study_verdict
from fedfleet.core.errors import BadInput
from fedfleet.measure.statistics.paired_tests import paired_test
from tests.app.studies.tables import aims, asked, ran

A, B = "algorithm.lr=0.05", "algorithm.lr=0.1"


def concluded(study, cells):
    return conclusion(study_verdict(study, cells, aims()), cells)


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
    first_look = 0.05 / 0.04
    assert (got["difference"], got["p"], got["n"]) == (pytest.approx(known.difference), pytest.approx(known.p), 3)
    assert got["p_holm"] == got["p_corrected"] == pytest.approx(known.p * first_look)
    assert result[B]["against_at_equal_time"]["difference"] == got["difference"], "all runs end then"
    assert result[B]["settings"] == {"algorithm.lr": 0.1}


def test_dunnett_counts_all_arms_and_the_residuals_of_all():
    study = asked(seeds=3, baseline="algorithm.lr=0.1", grid={"algorithm.lr": [0.1, 0.2, 0.3]})
    base, two, three = [0.5, 0.6, 0.7], [0.6, 0.72, 0.79], [0.55, 0.67, 0.72]
    result = rows(study, ran(study, [*base, *two, *three]))
    got = result["algorithm.lr=0.2"]["against"]
    table = np.array([base, two, three])
    rest = table - table.mean(1, keepdims=True) - table.mean(0) + table.mean()
    t = (table[1] - table[0]).mean() / np.sqrt(2 * (rest**2).sum() / 4 / 3)
    assert got["p"] == pytest.approx(2 * stats.t.sf(t, 4)) and got["p_corrected"] > 1.25 * got["p"]
    assert got["low"] < got["difference"] < got["high"]


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


def test_the_conclusion_recommends_and_says_what_failed():
    three, one = asked(seeds=3), asked(seeds=1)
    clear = concluded(three, ran(three, [0.5, 0.52, 0.51, 0.8, 0.83, 0.81]))
    assert clear.startswith(f"Use '{B}': it reaches 81.3 %")
    assert "one common seed cannot show" in concluded(one, ran(one, [0.5, 0.8]))
    some = concluded(three, ran(three, [0.5, 0.52, 0.51, 0.8, None, 0.81]))
    assert "for now" in some and some.endswith(
        "1 of 6 runs could not be finished and are not in the comparison; most often: out of luck."
    )
    assert concluded(three, ran(three, [None] * 6)) == "6 of 6 runs could not be finished; most often: out of luck."


def without_model(ran):
    return replace(ran, reason="no model was made", run=replace(ran.run, first=None))


def test_whoever_lost_runs_is_not_recommended_however_good_the_others_are():
    five = asked(seeds=5)
    low, high = [0.5, 0.52, 0.51, 0.53, 0.5], [0.8, 0.83, 0.81, 0.84, 0.82]
    cells = ran(five, [*low, *high])
    assert concluded(five, cells).startswith(f"Use '{B}': ")
    bare = [without_model(c) if c.cell.arm == B and c.cell.seed < 2 else c for c in cells]
    said = concluded(five, bare)
    assert said.startswith(f"Use '{A}' for now") and f"2 of 5 runs of '{B}' had no model by then" in said, said
    nobody = [without_model(c) if c.cell.arm == B else c for c in cells]
    said = concluded(five, nobody)
    assert said.startswith(f"Use '{A}': it reaches 51.2 %") and "5 of 10 runs made no model" in said


def test_runs_on_few_fleets_tell_of_few_fleets():
    study = asked(seeds=4, baseline=A, grid={"algorithm.lr": [0.05, 0.1], "seeds.fleet": [7, 8]})
    # The second arm gains 1 point on one fleet and 9 on the other, with every seed nearly alike.
    gains = [g + e for e in (0.0, 0.001, -0.001, 0.002) for g in (0.01, 0.09)]
    cells = ran(study, [0.5] * 8 + [0.5 + gain for gain in gains])
    result = rows(study, cells)[B]
    assert (result["against"]["n"], result["against"]["unit"]) == (2, "fleets") and result["against"]["p"] > 0.2
    assert result["accuracy"]["low"] < 0.3 and result["accuracy"]["n"] == 8
    assert "not decided" in concluded(study, cells)


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
