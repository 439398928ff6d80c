"""The study of predictions, on a tiny scale: fleets that nobody shares, figures checked by hand, a call that goes on."""

import json

import numpy as np
import pytest

from fedfleet.app.spec import resolve
from studies import predict
from studies.predict import (
    DATA,
    FIRST,
    RECORD,
    SETTINGS,
    Piece,
    Setting,
    band_of,
    failing,
    groups,
    interval,
    main,
    page_of,
    publish,
    summary,
    table_of,
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


def test_the_splits_share_no_seed_and_every_spec_is_valid(tmp_path):
    seeds = {}
    for split in FIRST:
        for task, setting in SETTINGS.items():
            pieces = [Piece(split, task, i, tmp_path) for i in range(setting.fleets)]
            drawn = [table_of(piece, attempt) for piece in pieces for attempt in range(3)]
            seeds.setdefault(split, set()).update(table["seed"] for table in drawn)
            assert all(resolve(table).seed == table["seed"] for table in drawn[::19])
    assert not seeds["development"] & seeds["test"]
    assert sum(setting.fleets for setting in SETTINGS.values()) >= 60 and len(SETTINGS) == 2


def test_figures_are_what_they_say():
    found = summary(rows())
    assert (
        found["r"][0] == pytest.approx(1.0)
        and found["mean_error"] == pytest.approx(0.02)
        and found["mean_error_own"] == 0.0
        and found["bias"] == pytest.approx(0.02)
    )
    assert found["commits_off_median"] == pytest.approx(0.05) and found["in_band"] == 1.0
    assert found["speed sd"][0] == pytest.approx(-1.0) and 0.9 < found["InterMC-R"][0] < 1.0
    assert set(groups(rows())) == {"all", "digits", *DATA}
    value, low, high = interval(np.arange(30.0), np.arange(30.0) + np.random.default_rng(1).normal(0, 9, 30))
    assert low < value < high


def test_the_page_is_made_from_the_figures_that_are_kept():
    assert RECORD.with_suffix(".md").read_text() == page_of(json.loads(RECORD.read_text()))


def test_publishing_one_split_keeps_the_other(tmp_path, monkeypatch):
    monkeypatch.setattr(predict, "RECORD", tmp_path / "predict.json")
    for split in FIRST:
        publish(split, {"all": summary(rows())}, rows())
    assert set(json.loads((tmp_path / "predict.json").read_text())) == set(FIRST)
    text = (tmp_path / "predict.md").read_text()
    assert (
        "## Development fleets" in text
        and "## Test fleets" in text
        and "| all (12) | 1.00 [1.00, 1.00] | 1.00 [1.00, 1.00] |" in text
    )
    assert len(failing(rows())) == 6


def test_the_band_holds_nine_of_ten():
    found = band_of(rows(30), "development")
    assert found["below"] == pytest.approx([0.1] * len(found["below"])) and max(found["above"]) == 0.0
    assert "30 development fleets (digits)" in found["said"] and len(found["progress"]) >= 2


@pytest.mark.soak
def test_a_second_call_goes_on_where_the_first_ended(tmp_path, monkeypatch, capsys):
    tiny = Setting({"use": "digits_logreg"}, {"lr": 0.1}, 6, 2.0, 2)
    monkeypatch.setattr(predict, "SETTINGS", {"digits": tiny})
    monkeypatch.setattr(predict, "CLIENTS", 24)
    monkeypatch.setattr(predict, "FEWEST", 1)
    words = ["--out", str(tmp_path), "--task", "digits"]
    main([*words, "--fleets", "1"])
    assert "predicted" in capsys.readouterr().out
    kept = tmp_path / "fleets" / "development-digits-0.json"
    before = kept.stat().st_mtime_ns
    main([*words, "--band", str(tmp_path / "band.json")])
    got = json.loads((tmp_path / "predict-development.json").read_text())
    assert kept.stat().st_mtime_ns == before and len(got["fleets"]) == 2
    assert "Where it fails most" in (tmp_path / "predict-development.md").read_text()
