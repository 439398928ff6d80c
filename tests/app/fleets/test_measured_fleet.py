"""Fleets from what devices showed: the devices of a simulation are found again in its journal, and real ones fit a simulation."""

import json

import numpy as np
import pytest

import fedfleet
from fedfleet.app.api.fleet_files import from_run
from fedfleet.app.fleets.measured_fleet import (
    ASSUMED_KBPS,
    availability,
    device_rows,
    fleet_table,
    read_profiles,
    row_from_profile,
    rows_from_tasks,
)
from fedfleet.core.errors import BadInput
from fedfleet.measure.run_record import read_record
from fedfleet.network.frontend.device_profiles import PROFILES
from fedfleet.network.rules.checkins import Intervals
from fedfleet.store import journal
from fedfleet.world.bases import load_devices, load_states
from fedfleet.world.bases.canonical_files import write_devices
from tests.app.runs.test_served_run import ROUNDS, served
from tests.app.specs import written

PROFILE = {"model": "Pixel 6", "seconds_per_batch": 4.8, "batch": 16, "down_bytes_per_second": 1e6, "memory_mb": 4000}
TRUE = {
    f"device-{i}": {"seconds_per_sample": 0.01 * (i + 1), "down_kbps": [1000.0 * (i + 1)], "up_kbps": [300.0 * (i + 2)]}
    for i in range(4)
}


def simulate(folder, devices):
    spec = {
        "task": "digits_logreg", "algorithm": {"steps": 2}, "stop": {"rounds": 3}, "pace": {"cohort": 3},
        "world": {"clients": 4, "devices": {"use": "device_file", "path": str(devices)}},
    }  # fmt: skip
    return fedfleet.run(spec, out=folder / "run")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_devices_of_a_simulation_are_found_again_in_its_journal(tmp_path):
    write_devices(str(tmp_path / "true.json"), fleet_table(TRUE))
    simulate(tmp_path, tmp_path / "true.json")
    rows = rows_from_tasks(read_record(journal.read(tmp_path / "run/run.db")))
    assert len(rows) >= 3
    for client, row in rows.items():
        true = TRUE[f"device-{client}"]
        assert row["seconds_per_sample"] == pytest.approx(true["seconds_per_sample"])
        assert row["down_kbps"] == pytest.approx(true["down_kbps"] * len(row["down_kbps"]))
        assert row["up_kbps"] == pytest.approx(true["up_kbps"] * len(row["up_kbps"]))
    with pytest.raises(BadInput, match="no served run"):
        from_run(tmp_path / "run", out=tmp_path / "again.json")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_devices_of_a_served_run_are_those_of_a_simulation_after_it(tmp_path):
    served(written(tmp_path, ROUNDS), tmp_path)
    folder = tmp_path / "out"
    (folder / PROFILES).write_text(json.dumps({"client": 1, **PROFILE}) + "\n")
    answer = from_run(folder, out=tmp_path / "devices.csv", states=tmp_path / "states.json")
    assert answer.values["devices"] == 2 and answer.values["never_seen"] == 0 and not answer.remarks
    table, states = load_devices(str(tmp_path / "devices.csv")), load_states(str(tmp_path / "states.json"))
    assert table.ids.tolist() == states.ids.tolist() == ["client-0", "client-1"]
    rows = rows_from_tasks(read_record(journal.read(folder / "run.db")))
    assert table.seconds_per_sample.tolist() == pytest.approx([rows[c]["seconds_per_sample"] for c in (0, 1)])
    assert (table.seconds_per_sample < 0.01).all()  # tasks count, not the profile of a device that is a hundred times slower
    assert table.memory_mb[1] == 4000  # but what tasks do not show comes from it
    own = from_run(folder, out=tmp_path / "own.json", source="profiles")
    assert own.values["devices"] == 1 and load_devices(str(tmp_path / "own.json")).seconds_per_sample.tolist() == [0.1]
    result = fedfleet.run(
        {
            "task": "digits_logreg", "pace": {"cohort": 2, "min_clients": 1, "use": "readiness"}, "stop": {"rounds": 2},
            "world": {
                "clients": 2, "devices": {"use": "device_file", "path": str(tmp_path / "devices.csv")},
                "states": {"use": "state_file", "path": str(tmp_path / "states.json")},
            },
        },
        out=tmp_path / "simulated",
    )  # fmt: skip
    assert result.metrics["commits"] == 2


def test_tasks_count_more_than_profiles_and_both_more_than_nothing():
    profiles = {1: row_from_profile(PROFILE), 2: row_from_profile({"model": "a", "seconds_per_batch": 3.0})}
    assert device_rows([], profiles, "tasks") == {}
    assert device_rows([], profiles, "profiles") == device_rows([], profiles, "both") == profiles
    assert profiles[1] == {
        "seconds_per_sample": 0.1, "seconds_per_batch": 0.0, "down_kbps": [8000.0], "memory_mb": 4000,
    }  # fmt: skip
    assert profiles[2] == {"seconds_per_sample": 1.0, "seconds_per_batch": 0.0}
    table = fleet_table({"a": profiles[1], "b": profiles[2], "c": {**profiles[2], "up_kbps": [7.0]}})
    assert table.down.tolist() == [8000.0, ASSUMED_KBPS, 7.0]


def test_of_several_profiles_of_a_client_the_last_counts_and_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "profiles.jsonl"
    lines = [{"client": 0, **PROFILE}, {"client": 3, **PROFILE}, {"client": 0, **PROFILE, "batch": 8}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = read_profiles(path)
    assert [rows[c]["seconds_per_sample"] for c in (0, 3)] == [0.2, 0.1]
    for damaged in ("{", "[]", '{"client": -1}', '{"client": 1}', '{"model": "a", "seconds_per_batch": 1}', '{"client": true}'):
        path.write_text(json.dumps(lines[0]) + "\n" + damaged + "\n")
        with pytest.raises(BadInput, match="line 2 is no profile of a device"):
            read_profiles(path)


def test_clients_are_available_when_they_checked_in():
    intervals = Intervals(np.array([0, 0, 2, 2]), np.array([1.0, 90.0, 5.0, 5.5]), np.array([10.0, 100.5, 5.0, 5.2]))
    table = availability(intervals, {0: "a", 2: "b"})
    stays = [list(zip(*(column[slice(*table.traces.offsets[i : i + 2])].tolist() for column in spans), strict=True))
             for spans in [(table.traces.begins, table.traces.ends)] for i in range(2)]  # fmt: skip
    assert stays == [[(1.0, 10.0), (90.0, 100.5)], [(5.0, 6.5)]] and table.traces.period.tolist() == [101.0, 101.0]
