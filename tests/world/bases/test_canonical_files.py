"""The canonical files: what is written reads back, as JSON and as .npz; what is malformed is refused by its row."""

import contextlib
import json

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import StateTable, device_table, take_devices, take_states, unshared_devices, unshared_states
from fedfleet.world.bases import load_devices, load_states
from fedfleet.world.bases.canonical_files import devices_npz, write_devices, write_states
from tests.worlds import traces_of

DEVICES = device_table(
    ["a", "b", "c"],
    [[1e4, 2e4], [5e3], [7e3, 8e3, 9e3]],
    [0.1, 0.2, 0.3],
    [[], [4e3], []],
    np.array([[0.0, 0.0], [0.02, 0.08], [0.0, 0.0]]),
    np.array([4.0, np.nan, 2.0]),
    np.array([1024.0, np.nan, np.nan]),
    np.array([0.0, 0.5, 0.0]),
)


STATES = StateTable(np.array(["x", "y"]), traces_of([((0.0, 10.0), (20.0, 30.0)), ((5.0, 6.0),)], [100.0, 50.0], [1000.0, -7.0]))


def equal(a, b):
    """Two tables with a row for each client, column by column."""
    columns = [f for f in a.__slots__ if f not in ("traces", "row_index")]
    return all(np.array_equal(getattr(a, f), getattr(b, f), equal_nan=f != "ids") for f in columns)


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_what_is_written_reads_back(tmp_path, ending):
    write_devices(str(tmp_path / f"d.{ending}"), DEVICES)
    assert equal(load_devices(str(tmp_path / f"d.{ending}")), DEVICES)
    write_states(str(tmp_path / f"s.{ending}"), STATES)
    back = load_states(str(tmp_path / f"s.{ending}"))
    assert equal(back, STATES)
    assert equal(back.traces, STATES.traces)


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_clients_that_share_rows_are_written_one_by_one(tmp_path, ending):
    clients = np.array([1, 0, 1, 1])
    devices, states = take_devices(DEVICES, clients), take_states(STATES, clients)
    write_devices(str(tmp_path / f"d.{ending}"), devices)
    write_states(str(tmp_path / f"s.{ending}"), states)
    back = load_states(str(tmp_path / f"s.{ending}"))
    assert equal(load_devices(str(tmp_path / f"d.{ending}")), unshared_devices(devices))
    assert back.ids.tolist() == ["y", "x", "y", "y"]
    assert equal(back.traces, unshared_states(states).traces)


def test_a_device_without_a_time_per_batch_has_none(tmp_path):
    plain = device_table(["a"], [[1e4]], [0.1])
    for ending in ("json", "npz"):
        path = str(tmp_path / f"plain.{ending}")
        write_devices(path, plain)
        assert load_devices(path).seconds_per_batch.tolist() == [0.0]
    assert "seconds_per_batch" not in (tmp_path / "plain.json").read_text()
    assert "seconds_per_batch" not in np.load(tmp_path / "plain.npz").files


def device(**changes):
    return {"id": "device-x", "down_kbps": [1000.0], "up_kbps": None, "seconds_per_sample": 0.1, **changes}


def state(**changes):
    return {"id": "state-x", "start": 0, "end": 100, "ready": [[0, 9]], **changes}


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (device(down_kbps=[]), "device device-x: down_kbps"),
        (device(down_kbps=[0.0]), "device-x: down_kbps: 0.0 is not positive"),
        (device(down_kbps=[-1.0]), "device-x.*not positive"),
        (device(down_kbps=[float("nan")]), "device-x.*not positive"),
        (device(up_kbps=[0.0]), "device-x: up_kbps"),
        (device(seconds_per_sample=None), "device-x: seconds_per_sample"),
        (device(seconds_per_sample=-0.1), "device-x.*not negative"),
        (device(seconds_per_batch=-1), "device-x: seconds_per_batch"),
        (device(seconds_per_batch=False), "device-x: seconds_per_batch"),
        (device(latency_ms=[9, 1]), "device-x: latency_ms"),
        (device(cores=0), "device-x: cores"),
        ({"down_kbps": [1.0]}, "row 1 has no id"),
        (device(down_kbps=[1e16]), "device-x: down_kbps.*beyond 1e\\+15"),
        (device(colour="red"), r"row 1 \(device-x\) has an unknown key 'colour'"),
        (device(id="fine", cores=3), "row 1 has the id 'fine' of row 0, but their values differ; give one of them another id"),
    ],
)
def test_bad_devices_are_named(tmp_path, row, says):
    path = tmp_path / "d.json"
    path.write_text(json.dumps({"format": "fedfleet/devices@1", "devices": [device(id="fine"), row]}))
    with pytest.raises(BadInput, match=says):
        load_devices(str(path))


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (state(ready=[]), "state state-x: it is never ready"),
        (state(end=0), "state-x: end 0.0 is not after start 0.0"),
        (state(end=-5), "state-x: end"),
        (state(ready=[[5, 3]]), "state-x: interval 0 ends before it begins"),
        (state(ready=[[0, 1], [200, 300]]), "state-x: interval 1 begins outside"),
        (state(ready=[[0, float("nan")]]), "state-x: interval 0"),
        (state(start=None), "state-x: start and end"),
    ],
)
def test_bad_states_are_named(tmp_path, row, says):
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"format": "fedfleet/states@1", "states": [state(id="fine"), row]}))
    with pytest.raises(BadInput, match=says):
        load_states(str(path))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"down_kbps": np.array([1e4, 2e4, -1.0, 7e3, 8e3, 9e3])}, "device b: a speed is not positive"),
        ({"seconds_per_sample": np.array([0.1, 0.2, np.nan])}, "device c: seconds_per_sample"),
        ({"seconds_per_batch": np.array([0.1, -0.2, 0.0])}, "device b: seconds_per_batch"),
        ({"seconds_per_batch": np.zeros(2)}, "seconds_per_batch must have 3 entries"),
        ({"down_kbps_offsets": np.array([0, 2, 1, 6])}, "down_kbps_offsets must hold 4 numbers that rise from 0 to 6"),
        ({"format": np.array("other")}, "not fedfleet/devices@1"),
        ({"colour": np.zeros(3)}, "unknown array 'colour'"),
        ({"id": np.array(["a", "b", "a"])}, "row 2 has the id 'a' of row 0"),
        ({"id": np.array([["a"], ["b"], ["c"]])}, "id must be one row of names"),
        ({"latency_ms": np.array([[0.0, 0.0], [9.0, 1.0], [0.0, 0.0]])}, "row 1, device b: latency_ms"),
        ({"memory_mb": np.array([np.nan, -1.0, np.nan])}, "row 1, device b: memory_mb"),
        ({"down_kbps": np.array(["x"] * 6)}, "down_kbps must have entries, all numbers"),
        ({"up_kbps_offsets": np.array([0.0, 0.0, 1.0, 1.0])}, "up_kbps_offsets must hold 4 numbers"),
    ],
)
def test_bad_npz_devices_are_named(tmp_path, change, says):
    path = str(tmp_path / "d.npz")
    write_devices(path, DEVICES)
    with np.load(path) as file:
        arrays = {**file, **change}
    np.savez(path, **arrays)
    with pytest.raises(BadInput, match=says):
        load_devices(path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"ready": np.array([[1000.0, 1009.0], [1005.0, 1029.0], [-2.0, -2.0]])}, "state x: an interval"),
        ({"end": np.array([1100.0, -7.0])}, "state y: its end is not after its start"),
        ({"ready_offsets": np.array([0, 3, 3])}, "state y: it is never ready"),
        ({"ready": np.array([[1000.0, 1009.0], [1020.0, 1101.0], [-2.0, -2.0]])}, "row 0, state x: an interval"),
        ({"ready": np.array([[1000.0, 1009.0], [1020.0, np.nan], [-2.0, -2.0]])}, "row 0, state x: an interval"),
        ({"start": np.array([1000.0, -np.inf])}, "row 1, state y: its end is not after its start"),
        ({"id": np.array(["x", "x"])}, "row 1 has the id 'x' of row 0"),
    ],
)
def test_bad_npz_states_are_named(tmp_path, change, says):
    path = str(tmp_path / "s.npz")
    write_states(path, STATES)
    with np.load(path) as file:
        arrays = {**file, **change}
    np.savez(path, **arrays)
    with pytest.raises(BadInput, match=says):
        load_states(path)


def test_an_npz_that_holds_objects_is_not_unpickled(tmp_path):
    path = str(tmp_path / "d.npz")
    np.savez(path, format=np.array("fedfleet/devices@1"), id=np.array([{"a": 1}], dtype=object))
    with pytest.raises(BadInput, match="cannot be read"):
        load_devices(path)


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_a_file_cannot_be_written_into_a_folder_that_is_not_there(tmp_path, ending):
    for write, table in ((write_devices, DEVICES), (write_states, STATES)):
        with pytest.raises(BadInput, match=r"cannot be written: .*; give a file in a folder that exists"):
            write(str(tmp_path / "none" / f"f.{ending}"), table)


@pytest.mark.parametrize(("name", "row"), [("devices", device()), ("states", state())])
def test_unknown_keys_of_a_file_are_named(tmp_path, name, row):
    path = tmp_path / "f.json"
    path.write_text(json.dumps({"format": f"fedfleet/{name}@1", name: [row, row], "formatt": 1}))
    with pytest.raises(BadInput, match="unknown key 'formatt'; did you mean 'format'"):
        (load_devices if name == "devices" else load_states)(str(path))


@pytest.mark.parametrize("cut", [0, 10, 100, -30, -1])
def test_a_damaged_archive_is_refused(tmp_path, cut):
    path = tmp_path / "d.npz"
    write_devices(str(path), DEVICES)
    path.write_bytes(path.read_bytes()[:cut])
    for load in (load_devices, load_states):
        with pytest.raises(BadInput):
            load(str(path))


@pytest.mark.parametrize("seed", range(30))
def test_a_flipped_byte_is_refused_or_read_as_some_fleet(tmp_path, seed):
    path = tmp_path / "d.npz"
    write_devices(str(path), DEVICES)
    rng, raw = np.random.default_rng(seed), bytearray(path.read_bytes())
    raw[int(rng.integers(len(raw)))] ^= 1 << int(rng.integers(8))
    path.write_bytes(bytes(raw))
    with contextlib.suppress(BadInput):
        assert len(devices_npz(str(path))) == 3


def test_rows_that_repeat_a_device_are_one_device_for_many_clients(tmp_path):
    fleet = take_devices(DEVICES, np.array([1, 1, 0, 2, 1]))
    write_devices(str(tmp_path / "d.npz"), fleet)
    assert devices_npz(str(tmp_path / "d.npz")).ids.tolist() == unshared_devices(fleet).ids.tolist()
