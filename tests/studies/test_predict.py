"""The study of predictions, on a tiny scale: fleets that nobody shares, a call that goes on where the last one ended."""

import json

import pytest

from fedfleet.app.spec import resolve
from studies import predict
from studies.predict import FIRST, SETTINGS, Piece, Setting, main, table_of, tasks_of


def test_the_splits_share_no_seed_and_every_spec_is_valid(tmp_path):
    seeds = {}
    for split in FIRST:
        for task in tasks_of(split):
            pieces = [Piece(split, task, i, tmp_path) for i in range(SETTINGS[task].fleets[split][0])]
            drawn = [table_of(piece, attempt) for piece in pieces for attempt in range(3)]
            seeds.setdefault(split, set()).update(table["seed"] for table in drawn)
            seeds[split].update(table["seeds"]["data"] for table in drawn if "seeds" in table)
            assert all(resolve(table).seed == table["seed"] for table in drawn[::19])
    assert sum(map(len, seeds.values())) == len(set().union(*seeds.values()))
    assert sum(SETTINGS[task].fleets["fresh"][0] for task in ("digits", "wisdm")) >= 60
    assert set(tasks_of("fresh")) - set(tasks_of("calibration")) == {"fashion"}


def test_fleets_that_share_data_share_reference_runs_and_differ_in_devices(tmp_path):
    for split in ("calibration", "fresh"):
        tables = [table_of(Piece(split, "digits", i, tmp_path), 0) for i in range(36)]
        drawn = {(t["seeds"]["data"], t["seeds"]["training"], str(t["world"]["data"])) for t in tables}
        assert len(drawn) == 3 * SETTINGS["digits"].fleets[split][1] and len({t["seed"] for t in tables}) == 36


@pytest.mark.soak
def test_a_second_call_goes_on_where_the_first_ended(tmp_path, monkeypatch, capsys):
    tiny = Setting({"use": "digits_logreg"}, {"lr": 0.1}, 6, 2.0, {"development": (2, None)})
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
