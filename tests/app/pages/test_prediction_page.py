"""Pages of predictions: the conclusion first, both drawings of every figure, nothing from elsewhere, text escaped."""

from fedfleet.app.pages.prediction_page import prediction_page, sweep_page
from tests.app.studies.predict.test_prediction_result import ANSWER

WHOLE = ANSWER | {
    "curve": {
        "seconds": [0.0, 3600.0, 7200.0],
        "accuracy": [0.1, 0.6, 0.8],
        "low": [0.0, 0.5, 0.7],
        "high": [0.2, 0.7, 0.9],
    },
    "noise": 1.5,
    "exponent": 0.2,
    "reference": {"seconds": 5.0, "kept": True, "commits": 50, "flat": False},
}


def test_the_conclusion_comes_first_and_figures_state_their_finding():
    text = prediction_page(WHOLE, "a <fleet>")
    assert text.index("The run will reach about 80.0 %") < text.index("<figure>") < text.index("Limitations")
    assert "a &lt;fleet&gt;" in text and "<fleet>" not in text and "http" not in text.replace("http://www.w3.org", "")
    assert text.count('role="img"') == 4 and text.count('class="wide"') == text.count('class="slim"') == 2
    assert "rounds that will fail because" in text and "rounds that will fail" not in prediction_page(
        WHOLE | {"failed_rounds": {}}, "x"
    )


def test_where_no_model_will_be_made_the_page_says_so_first():
    text = prediction_page(WHOLE | {"commits": {"value": 0.0, "low": 0.0, "high": 0.0}}, "x")
    assert "<h1>No model will be made" in text and "None of 100 rounds will end with a model" in text
    assert (
        "will reach about" not in text
        and "80.0 %" not in text.replace("\u00a0", " ")
        and "Accuracy on the central test set" not in text
    )
    assert "rounds that will fail because" in text


def test_a_sweep_has_a_picture_and_a_row_for_each_value():
    row = {
        "value": 30,
        "accuracy": 0.1,
        "commits": 0.0,
        "virtual_seconds": 600.0,
        "seconds_to_target": None,
        "never": 1.0,
    }
    rows = [row, row | {"value": 60, "accuracy": 0.9, "seconds_to_target": 90.0}]
    text = sweep_page({"key": "pace.seconds", "rows": rows, "target": 0.8, "seconds": 1.0, "sentence": "So it is."}, "fleet")
    assert text.count("<tr>") == 3 and "never" in text and "So it is." in text and text.count('role="img"') == 2
