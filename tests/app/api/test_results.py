"""Records of what was found: short in a notebook, as the command line prints it when printed, the verb's JSON as an answer."""

import numpy as np

from fedfleet.app.api.results import Range, Reported, make_measured, make_predicted, make_swept

TOLD = {
    "accuracy": {"value": 0.7, "low": 0.6, "high": 0.8}, "ideal_accuracy": 0.9, "rounds": 10.0, "effective": 0.5, "draws": 4,
    "commits": {"value": 9.0, "low": 8.0, "high": 10.0}, "failed_rounds": {"too few": 1.0}, "clock": {"0": 5.0, "1": 9.0},
    "virtual_seconds": {"value": 7200.0, "low": 7000.0, "high": 7400.0}, "target": None, "seconds": 0.1, "band": "63 fleets",
    "curve": {"seconds": [0.0, 7200.0], "commits": [0, 9], "accuracy": [0.1, 0.7], "low": [0.1, 0.6], "high": [0.2, 0.8]},
    "left_out": {"never": 0.25, "sentence": "25 % are in no model."}, "notes": ["labels only"],
    "reference": {"commits": 10, "seconds": 2.0, "kept": False, "flat": False},
}  # fmt: skip
METRIC = {"value": 0.9, "sd": 0.0, "seeds": 1, "ci95": None, "notes": []}


def test_a_prediction_has_ranges_and_columns():
    result = make_predicted(TOLD)
    assert result.accuracy == Range(0.7, 0.6, 0.8) and isinstance(result.curve["accuracy"], np.ndarray)
    said = "70.0 % at the end (60.0 % to 80.0 %), 9 models of 10 rounds, 2.0 h of virtual time, 25.0 % of clients in no model"
    assert repr(result) == f"Predicted({said})" and result.answer() == TOLD
    none = make_predicted({**TOLD, "commits": {"value": 0.0, "low": 0.0, "high": 0.0}})
    assert repr(none) == "Predicted(no model in 10 rounds, 2.0 h of virtual time)"
    assert "cannot be seen: labels only" in str(result) and "the band is from 63 fleets" in str(result)


def test_a_sweep_says_its_sentence():
    row = {
        "value": 30,
        "accuracy": 0.5,
        "commits": 3.0,
        "virtual_seconds": 60.0,
        "seconds_to_target": None,
        "never": 0.0,
    }
    told = {"key": "pace.seconds", "rows": [row], "target": 0.8, "best": 30, "seconds": 0.1, "sentence": "None does."}
    assert repr(make_swept(told)) == "Swept(pace.seconds at 1 values: None does.)" and "pace.seconds" in str(
        make_swept(told)
    )


def test_metrics_have_units():
    result = make_measured({"DevMC-R": {**METRIC, "fair_work": 0.4}, "DevMC-T": {**METRIC, "round_seconds": 50.0}})
    assert {name: (one.comes_to, one.unit) for name, one in result.metrics.items()} == {
        "DevMC-R": (0.4, "share of fair work"),
        "DevMC-T": (50.0, "seconds of a round"),
    }
    assert repr(result) == "Measured(DevMC-R 0.9: 40.0 % of fair work; DevMC-T 0.9: 50 s a round)"
    assert "higher is easier" in str(result)
    assert repr(make_measured({"verdict": "Nothing.", "not_measured": ["users"]})) == "Measured(Nothing.)"


def test_a_report_is_short(tmp_path):
    result = Reported("run", tmp_path / "report.html", "rounds 3", {"rounds": 3})
    assert repr(result) == f"Reported(run: {tmp_path}/report.html)" and str(result) == "rounds 3"
    assert result.answer() == {"rounds": 3}
