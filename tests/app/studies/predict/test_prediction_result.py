"""Predictions as records and as text: units on every number, failures by reason, a table of a sweep."""

import numpy as np

from fedfleet.app.studies.predict.prediction_result import Predicted, Range, Swept

ANSWER = {
    "accuracy": {"value": 0.8, "low": 0.7, "high": 0.9},
    "ideal_accuracy": 0.95,
    "commits": {"value": 90.0, "low": 88.0, "high": 92.0},
    "rounds": 100.0,
    "failed_rounds": {"too few": 10.0},
    "virtual_seconds": {"value": 7200.0, "low": 7000.0, "high": 7300.0},
    "target": None,
    "curve": {"seconds": [0.0, 3600.0, 7200.0], "accuracy": [0.1, 0.6, 0.8]},
    "clock": {"0": 12.0, "1": 80.0},
    "effective": 0.25,
    "noise": 1.5,
    "exponent": 0.2,
    "cohort": 10,
    "closed_form": None,
    "left_out": {"never": 0.25, "sentence": "25 % are in no model."},
    "draws": 4,
    "reference": {"commits": 50, "seconds": 5.0, "kept": True, "flat": False},
    "band": "a test",
    "notes": ["the weather"],
    "seconds": 0.2,
}
RANGES = ("accuracy", "commits", "virtual_seconds")
ROW = {
    "value": 30, "accuracy": 0.1, "commits": 0.0, "virtual_seconds": 600.0, "seconds_to_target": None, "never": 1.0,
}  # fmt: skip


def predicted(**changed):
    """The record of the answer with these values."""
    answer = ANSWER | changed
    curve = {name: np.array(values) for name, values in answer["curve"].items()}
    ranges = {name: Range(**answer[name]) for name in RANGES}
    return Predicted(**{**answer, **ranges, "curve": curve, "notes": tuple(answer["notes"])})


def swept(rows):
    """The record of a sweep with these rows."""
    return Swept("pace.seconds", rows, 0.8, rows[-1]["value"], 1.0, {"kept": True, "seconds": 5.0}, "So it is.")


def test_the_record_is_its_json_answer():
    assert predicted().to_dict() == ANSWER and list(predicted().to_dict()) == list(ANSWER)
    assert predicted().answer() == ANSWER
    assert list(swept([ROW]).to_dict()) == ["key", "rows", "target", "best", "seconds", "reference", "sentence"]


def test_a_prediction_is_said_with_its_band_and_what_it_cannot_see():
    text = str(predicted())
    for fact in ("80.0 %", "70.0 % to 90.0 %", "90 commits (88 to 92)", "100 rounds", "2.0 h", "10 (10 x too few)"):
        assert fact in text
    for fact in ("12 (label 0) to 80 (label 1)", "the weather", "60.0 % after 60.0 min", "cached", "a test"):
        assert fact in text
    missed, reached = (str(predicted(target={"accuracy": 0.9, "seconds": when})) for when in (None, 90.0))
    assert "90.0 %: not reached" in missed and "90.0 %: reached after 1.5 min" in reached
    assert "failed rounds" not in str(predicted(failed_rounds={}))
    assert "90 models of 100 rounds, 2.0 h of virtual time, 25.0 % of clients in no model" in repr(predicted())


def test_where_no_model_will_be_made_no_accuracy_is_claimed():
    none = predicted(commits={"value": 0.0, "low": 0.0, "high": 0.0})
    assert str(none).startswith("no model: none of 100 rounds in 2.0 h of virtual time")
    for claim in ("80.0 %", "on the way", "class clock"):
        assert claim not in str(none)
    assert "failed rounds: 10 (10 x too few)" in str(none) and "25 % are in no model." in str(none)
    assert repr(none) == "Predicted(no model in 100 rounds, 2.0 h of virtual time)"


def test_a_sweep_is_an_aligned_table():
    better = {
        **ROW,
        "value": 600,
        "accuracy": 0.9,
        "commits": 9.0,
        "virtual_seconds": 6e5,
        "seconds_to_target": 90.0,
        "never": 0.0,
    }
    head, first, second, *_, last = str(swept([ROW, better])).splitlines()
    assert len(head) == len(first) == len(second) and last == "So it is." and " - " in first and "1.5 min" in second
    assert "no model" in first and "10.0 %" not in first
    assert repr(swept([ROW])) == "Swept(pace.seconds at 1 values: So it is.)"
