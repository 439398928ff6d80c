"""`fedfleet fleet`: what it writes, and what it refuses."""

import json

import pytest

from fedfleet.app.api.fleet_files import from_profiles, from_run
from fedfleet.app.fleets.measured_fleet import ASSUMED_KBPS
from fedfleet.core.errors import BadInput
from fedfleet.world.bases import load_devices

PROFILE = {"model": "Pixel 6", "seconds_per_batch": 4.8, "batch": 16}


def test_files_of_profiles_and_of_devices_become_one_fleet(tmp_path):
    (tmp_path / "one.json").write_text(
        json.dumps({"format": "fedfleet/devices@1", "devices": [{"id": "desk", "down_kbps": [5], "seconds_per_sample": 0.2}]})
    )
    (tmp_path / "profiles.jsonl").write_text(json.dumps({"client": 3, **PROFILE, "down_bytes_per_second": 0}) + "\n")
    answer = from_profiles(tmp_path / "one.json", tmp_path / "profiles.jsonl", out=tmp_path / "fleet.npz")
    table = load_devices(str(tmp_path / "fleet.npz"))
    assert table.ids.tolist() == ["desk", f"{tmp_path.name}-3"] and table.down.tolist() == [5.0, ASSUMED_KBPS]
    assert answer.values["links_assumed"] == 1 and "100 Mbit/s" in answer.remarks[0]
    with pytest.raises(BadInput, match="at least one device"):
        from_profiles(out=tmp_path / "fleet.npz")


def test_what_is_no_served_run_is_refused(tmp_path):
    with pytest.raises(BadInput, match="no served run"):
        from_run(tmp_path, out=tmp_path / "devices.json")
    with pytest.raises(BadInput, match="source 'task' is not known; did you mean 'tasks'"):
        from_run(tmp_path, out=tmp_path / "devices.json", source="task")
