"""The page of a search says what was found, how far to trust it, and shows every trial."""

import pytest

from fedfleet.app.pages.search_page import conclusion, report_tuning, tuning_page, write_tuning
from fedfleet.core.errors import BadInput
from tests.app.studies.tune.test_search_result import made, row


def test_the_finding_comes_first_and_every_trial_has_its_row(tmp_path):
    text = tuning_page(made(tmp_path))
    plain = text.replace("\u00a0", " ")
    assert "Use algorithm.lr = 0.2, algorithm.batch = 8: 90.0 %, 10.0 points better than the spec as it stands" in plain
    assert all(said in text for said in ("Which key matters", "Which values go together", "Every trial", "in part luck"))
    assert text.count("<tr>") == 5 and "the spec as it stands" in text and "<script" not in text


def test_what_a_search_of_other_kinds_says(tmp_path):
    assert conclusion(made(tmp_path, place=None))[0] == "None of 4 trials ended"
    assert conclusion(made(tmp_path, place=0))[0] == "No trial beat the spec as it stands: 80.0 %"
    late = [row(0, value=None, default=True), row(1, value=7200.0), row(2, value=3600.0)]
    result = made(tmp_path, late, metric="time_to.0.8", minimise=True, place=2, default_value=None)
    assert "60.0 min" in conclusion(result)[0]
    assert "not reached" in tuning_page(result)
    empty = made(tmp_path, [row(0, "failed", default=True)], place=None, importance={}, default_value=None)
    assert "<svg viewBox" not in tuning_page(empty)


def test_values_outside_of_the_space_widen_the_axis(tmp_path):
    rows = [row(0, value=0.8, default=True), row(1, value=0.9), row(40, value=0.7)]
    assert "algorithm.lr" in tuning_page(made(tmp_path, rows))


def test_the_page_is_written_again_from_the_folder(tmp_path):
    result = made(tmp_path)
    (tmp_path / "tune.json").write_text(result.text())
    path = report_tuning(tmp_path)
    assert path.read_text() == tuning_page(result)
    with pytest.raises(BadInput, match="cannot write"):
        write_tuning(made(tmp_path / "none"))
