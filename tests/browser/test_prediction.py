"""The page of a prediction and that of a sweep, as a reader sees them: wide and on a phone, light and dark."""

import pytest

from fedfleet.app.pages.prediction_page import prediction_page, sweep_page
from tests.app.pages.test_prediction_page import WHOLE

pytestmark = pytest.mark.slow

ROW = {"accuracy": 0.1, "commits": 0.0, "virtual_seconds": 600.0, "seconds_to_target": None, "never": 1.0}
SWEEP = {
    "key": "pace.seconds",
    "rows": [{**ROW, "value": v, "accuracy": 1 - 20 / v} for v in (30, 60, 120, 600)],
    "target": 0.8,
    "seconds": 1.0,
    "sentence": "pace.seconds = 120 reaches 80.0 % first.",
}


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1100, 390])
@pytest.mark.parametrize("text", [prediction_page(WHOLE, "fleet"), sweep_page(SWEEP, "fleet")], ids=["one", "sweep"])
def test_a_prediction_can_be_read(look, tmp_path, text, width, dark):
    (tmp_path / "page.html").write_text(text)
    assert look(tmp_path / "page.html", width=width, dark=dark).faults() == []
