"""Predictions as text: units on every number, failures by reason, a table of a sweep."""

from fedfleet.app.terminal.prediction_text import prediction_text, sweep_text

ANSWER = {
    "accuracy": {"value": 0.8, "low": 0.7, "high": 0.9},
    "ideal_accuracy": 0.95,
    "commits": {"value": 90.0, "low": 88.0, "high": 92.0},
    "rounds": 100.0,
    "failed_rounds": {"too few": 10.0},
    "virtual_seconds": {"value": 7200.0, "low": 7000.0, "high": 7300.0},
    "curve": {"seconds": [0.0, 3600.0, 7200.0], "accuracy": [0.1, 0.6, 0.8]},
    "left_out": {"sentence": "No client will be left out."},
    "clock": {"0": 12.0, "1": 80.0},
    "effective": 0.25,
    "notes": ["the weather"],
    "draws": 4,
    "seconds": 0.2,
    "reference": {"seconds": 5.0, "kept": True},
    "band": "a test",
}


def test_a_prediction_is_said_with_its_band_and_what_it_cannot_see():
    said = prediction_text(ANSWER)
    assert "accuracy 80.0 % at the end, nine times of ten between 70.0 % and 90.0 %" in said
    assert "90 commits (88 to 92) of 100 rounds in 2.0 h" in said and "failed rounds: 10 (10 x too few)" in said
    assert "12 (label 0) to 80 (label 1) commits" in said and "cannot be seen: the weather" in said
    assert "60.0 % after 60.0 min" in said and "(kept from before)" in said
    said = [prediction_text(ANSWER | {"target": {"accuracy": 0.9, "seconds": when}}) for when in (None, 90.0)]
    assert "90.0 %, is reached not within these rounds" in said[0] and "90.0 %, is reached after 1.5 min" in said[1]
    assert "failed rounds" not in prediction_text(ANSWER | {"failed_rounds": {}})


def test_where_no_model_will_be_made_no_accuracy_is_claimed():
    said = prediction_text(ANSWER | {"commits": {"value": 0.0, "low": 0.0, "high": 0.0}})
    assert said.startswith("no model will be made: none of 100 rounds in 2.0 h of virtual time will end with one")
    assert "accuracy 80.0 %" not in said and "on the way" not in said and "class clock" not in said
    assert "failed rounds: 10 (10 x too few)" in said and "No client will be left out." in said


def test_a_sweep_is_an_aligned_table():
    rows = [
        {
            "value": 30,
            "accuracy": 0.1,
            "commits": 0.0,
            "virtual_seconds": 600.0,
            "seconds_to_target": None,
            "never": 1.0,
        },
        {
            "value": 600,
            "accuracy": 0.9,
            "commits": 9.0,
            "virtual_seconds": 6e5,
            "seconds_to_target": 90.0,
            "never": 0.0,
        },
    ]
    said = sweep_text({"key": "pace.seconds", "rows": rows, "target": 0.8, "seconds": 1.0, "sentence": "So it is."})
    head, first, second, *_, last = said.splitlines()
    assert len(head) == len(first) == len(second) and last == "So it is." and " - " in first and "1.5 min" in second
    assert "no model" in first and "10.0 %" not in first
