"""What fleets say together: figures checked by hand, both forms beside each other, the page, the band."""

import json

import numpy as np
import pytest

from studies import predicted
from studies.predict import DATA, FIRST
from studies.predicted import (
    RECORD,
    SPLITS,
    band_of,
    failing,
    groups,
    interval,
    mean_interval,
    page_of,
    publish,
    summary,
)


def rows(n=12):
    """Fleets that are predicted two points too high."""
    at = np.linspace(0.3, 0.9, n)
    alike = {
        "task": "digits", "foreseen": 95.0, "commits": 100, "seconds": 0.2, "ideal": 1.0, "untrained": 0.0, "effective": 0.5,
        "table": {"pace": {"seconds": 9}},
    }  # fmt: skip
    return [
        {**alike, "name": f"test-digits-{i}", "data": list(DATA)[i % 3], "predicted": a + 0.02, "own": a, "trained": a,
         "low": a - 0.1, "high": a + 0.1, "InterMC-R": a**3, "speed sd": 1.0 - a, "predicted_at": [a] * 4,
         "trained_at": [a - 0.1] * 4}
        for i, a in enumerate(at)
    ]  # fmt: skip


def test_figures_are_what_they_say():
    result = summary(rows())
    assert (
        result["r"][0] == pytest.approx(1.0)
        and result["mean_error"] == pytest.approx(0.02)
        and result["mean_error_own"] == 0.0
        and result["bias"] == pytest.approx(0.02)
    )
    assert result["commits_off_median"] == pytest.approx(0.05) and result["in_band"] == 1.0
    assert result["speed sd"][0] == pytest.approx(-1.0) and 0.9 < result["InterMC-R"][0] < 1.0
    assert set(groups(rows())) == {"all", "digits", *DATA}
    value, low, high = interval(np.arange(30.0), np.arange(30.0) + np.random.default_rng(1).normal(0, 9, 30))
    assert low < value < high


def test_the_page_is_made_from_the_figures_that_are_kept():
    assert RECORD.with_suffix(".md").read_text() == page_of(json.loads(RECORD.read_text()))


def test_publishing_one_split_keeps_the_other(tmp_path, monkeypatch):
    monkeypatch.setattr(predicted, "RECORD", tmp_path / "predict.json")
    for split in SPLITS:
        publish(split, {"all": summary(rows())}, rows())
    assert set(json.loads((tmp_path / "predict.json").read_text())) == set(SPLITS) == set(FIRST)
    text = (tmp_path / "predict.md").read_text()
    assert (
        "## Development fleets" in text
        and "## Test fleets" in text
        and "| all (12) | 1.00 [1.00, 1.00] | 1.00 [1.00, 1.00] |" in text
    )
    assert len(failing(rows())) == 6


def test_the_band_holds_nine_of_ten():
    result = band_of(rows(30), "development")
    assert result["below"] == pytest.approx([0.1] * len(result["below"])) and max(result["above"]) == 0.0
    assert "30 development fleets (digits)" in result["said"] and len(result["progress"]) >= 2


def test_both_forms_stand_beside_each_other_on_the_same_fleets(tmp_path, monkeypatch):
    monkeypatch.setattr(predicted, "RECORD", tmp_path / "predict.json")
    some = [{**row, "before": row["trained"] - 0.05, "cluster": i % 4, "exponent": 0.1 * (i % 3)} for i, row in enumerate(rows())]
    result = summary(some)
    assert result["mean_error_before"] == pytest.approx(0.05) and result["bias_before"] == pytest.approx(-0.05)
    assert result["gain"] == pytest.approx((0.03, 0.03, 0.03)) and result["clusters"] == 4
    publish("fresh", {"all": result}, some)
    assert (
        "| all (12, 4) | 1.00 [1.00, 1.00] | 1.00 [1.00, 1.00] | 2.0 | 5.0 | 3.0 [3.0, 3.0] | +2.0 | -5.0 |"
        in (tmp_path / "predict.md").read_text()
    )


def test_whole_clusters_are_redrawn():
    values, clusters = np.repeat([0.0, 1.0], 50), np.repeat(["a", "b"], 50).tolist()
    assert mean_interval(values, clusters) == (0.5, 0.0, 1.0)
    mean, low, high = mean_interval(values, list(range(100)))
    assert mean == 0.5 and 0.35 < low < 0.45 and 0.55 < high < 0.65
