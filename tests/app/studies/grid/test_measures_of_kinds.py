"""Studies by another measure than accuracy: its direction, its target, its unit in tables."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.app.studies.grid.analyses import check_analysis, check_target
from fedfleet.app.studies.grid.analysis_results import arm_rows, run_analyses, study_verdict
from fedfleet.app.studies.grid.quantities import number, score_of_cells, shown_measures
from fedfleet.app.studies.grid.study_tables import flat_row, results_table, run_row
from fedfleet.core.errors import BadInput
from tests.app.studies.tables import LRS, aims, asked, ran

REGRESSION = {"score": {"kind": "regression"}, "chance": 0.0, "test_samples": 100}


def cells_of(study, errors):
    """Runs of a regression, which end with these errors; R2 falls as they rise."""
    cells = ran(study, [0.9 - error / 100 for error in errors], **REGRESSION)
    for i, error in enumerate(errors):
        curve = np.array([80.0, (80.0 + error) / 2, error])
        metrics = {**cells[i].run.metrics, "measures": {"rmse": error, "mae": 0.8 * error}, "own": {"worst": 2 * error}}
        cells[i] = replace(cells[i], run=replace(cells[i].run, metrics=metrics, measures={"rmse": curve}))
    return cells


def answered(**more):
    """A study of two learning rates with three seeds by RMSE, what its runs are measured by, and its runs."""
    study = asked(seeds=[0, 1, 2], aim="rmse", target="rmse <= 60", baseline="algorithm.lr=0.05", **more)
    cells = cells_of(study, [70.0, 71.0, 69.0, 50.0, 52.0, 51.0])
    by = replace(aims(target="rmse <= 60"), score=score_of_cells(cells), shown=shown_measures(cells, study.aim))
    return study, cells, by


def test_the_arm_with_the_lower_error_is_recommended_in_the_units_of_the_label():
    study, cells, by = answered()
    found = study_verdict(study, cells, by).recommendation
    assert found.arm == study.arms[1].name and found.decided and found.difference == pytest.approx(19.0)
    assert (
        "RMSE of 51.0" in found.sentence
        and "19.0 lower than" in found.sentence
        and found.title.endswith("RMSE 19.0 lower than 'algorithm.lr=0.05'")
    )
    assert "%" not in found.sentence.replace("95 % interval", "") and "points" not in found.sentence


def test_tables_have_the_measure_with_its_difference_and_the_target_by_name():
    study, cells, by = answered()
    rows = arm_rows(study, cells, by)
    heads, body = results_table(rows, study.baseline, by)
    shown = [dict(zip(heads, line, strict=True)) for line in body]
    assert {"R2 at the end", "RMSE at the end", "RMSE, against algorithm.lr=0.05"} <= set(
        heads
    ) and "median time to an RMSE of at most 60" in heads
    assert shown[1]["RMSE at the end"].startswith("51.0 [") and shown[1]["RMSE, against algorithm.lr=0.05"].startswith("-19.0 [")
    assert "3 of 3 never" in shown[0]["median time to an RMSE of at most 60"]
    assert "points" not in str(body) and "%" not in str(body)
    assert flat_row(rows[1], by)["rmse"] == pytest.approx(51.0) and run_row(cells[3], by)["rmse"] == 50.0


def test_quantities_of_analyses_may_be_any_measure():
    columns = ["rmse", "measures.mae", "own.worst"]
    study, cells, by = answered(analysis=[{"kind": "table", "columns": columns}, {"kind": "paired_test", "metric": "rmse"}])
    table, test = run_analyses(study, cells, by)
    assert [table["table"][1][name]["value"] for name in columns] == pytest.approx([51.0, 40.8, 102.0])
    assert test["table"][0]["difference"] == pytest.approx(-19.0)
    assert number(replace(cells[0], reason="no model"), "rmse", by, "here") is None


def test_the_interval_of_an_r2_may_lie_below_zero():
    study, cells, by = answered()
    (row, _) = arm_rows(study, cells, replace(by, shown=()))
    assert row["accuracy"]["low"] < row["accuracy"]["value"] and "measures" not in row


@pytest.mark.parametrize("wrong", ["rmse = 3", "rmse", "2 of best of a", "rmse < 3"])
def test_what_is_no_target_is_refused_with_an_example(wrong):
    with pytest.raises(BadInput, match=r"rmse <= 3\.5"):
        check_target(wrong, "target", ["a"])


def test_an_aim_that_is_no_measure_is_refused_with_the_nearest():
    with pytest.raises(BadInput, match="did you mean 'rmse'"):
        asked(aim="rmes")
    assert asked(aim="own.recall").aim == "own.recall" and LRS
    with pytest.raises(BadInput, match="neither a measure"):
        check_analysis({"kind": "table", "columns": ["rms"]}, "analysis[0]", ["a"])
