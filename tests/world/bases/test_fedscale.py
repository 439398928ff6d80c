"""FedScale's capacity and behaviour files: pickles and JSON alike, malformed rows refused by name."""

import json
import pickle

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import availability, mean_kbps
from fedfleet.core.intervals import ready_until
from fedfleet.world.bases import load_devices, load_states
from fedfleet.world.bases.fedscale import states_and_left_out
from tests.real import ROOT

needs_fedscale = pytest.mark.skipif(not (ROOT / "fedscale").is_dir(), reason=f"FedScale's rows are not in {ROOT} ($FEDFLEET_DATA)")
CAPACITY = {
    1: {"computation": np.float64(153.0), "communication": np.float64(2209.6)},
    20: {"computation": 39.0, "communication": 18437},
}
BEHAVIOUR = {
    1: {"duration": 50, "inactive": [20, 60, 70], "finish_time": 100, "active": [10, 20, 70], "model": "LG-K350"},
    7: {"duration": 0, "inactive": [5], "finish_time": 100, "active": [5], "model": "CPH1909"},
    20: {"duration": 30, "inactive": [250], "finish_time": 200, "active": [170], "model": "x"},
}


def written(folder, name, value):
    (folder / name).write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return f"fedscale:{folder / name}"


def test_devices_from_a_pickle(tmp_path):
    table = load_devices(written(tmp_path, "client_device_capacity", pickle.dumps(CAPACITY, 3)))
    assert table.ids.tolist() == ["1", "20"]
    assert table.seconds_per_sample.tolist() == [0.153, 0.039]
    assert mean_kbps(table).tolist() == [2209.6, 18437.0]
    assert len(table.up) == 0, "one speed serves both directions"


def test_json_and_pickle_say_the_same(tmp_path):
    renamed = {k: {"computation_ms_per_sample": float(r["computation"]), "communication_kbps": float(r["communication"])}
               for k, r in CAPACITY.items()}  # fmt: skip
    a = load_devices(written(tmp_path, "a", pickle.dumps(CAPACITY)))
    b = load_devices(written(tmp_path, "b.json", renamed))
    c = load_states(written(tmp_path, "c", pickle.dumps(BEHAVIOUR)))
    d = load_states(written(tmp_path, "d", BEHAVIOUR))
    assert np.array_equal(a.down, b.down) and np.array_equal(a.seconds_per_sample, b.seconds_per_sample)
    assert c.ids.tolist() == d.ids.tolist()
    assert np.array_equal(c.traces.begins, d.traces.begins) and np.array_equal(c.traces.ends, d.traces.ends)


def test_a_folder_with_the_original_names_serves_both(tmp_path):
    written(tmp_path, "client_device_capacity", pickle.dumps(CAPACITY))
    written(tmp_path, "client_behave_trace", pickle.dumps(BEHAVIOUR))
    assert len(load_devices(f"fedscale:{tmp_path}")) == 2
    assert len(load_states(f"fedscale:{tmp_path}")) == 2


def test_sessions_are_half_open_joined_and_cut_at_the_period(tmp_path):
    table, left_out = states_and_left_out(written(tmp_path, "b", BEHAVIOUR).removeprefix("fedscale:"))
    assert table.ids.tolist() == ["1", "20"]
    assert left_out == 1, "the device whose only session is empty"
    assert table.traces.begins.tolist() == [10.0, 170.0]
    assert table.traces.ends.tolist() == [60.0, 200.0]
    one = np.array([0])
    for time, ready, until in ((9, False, 10), (10, True, 60), (59, True, 60), (60, False, 110), (115, True, 160)):
        result, change = ready_until(table.traces, one, float(time))
        assert (result[0], change[0]) == (ready, until)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"computation": -1.0, "communication": 5.0}, "-1.0 is not finite and not negative"),
        ({"computation": float("nan"), "communication": 5.0}, "nan is not"),
        ({"computation": 1.0, "communication": 0}, "not positive"),
        ({"computation": 1.0, "communication": float("inf")}, "not positive"),
        ({"computation": "fast", "communication": 5.0}, "'fast'"),
        ({"computation": True, "communication": 5.0}, "True"),
        ({"communication": 5.0}, "no computation"),
        ({"computation": 1.0}, "no communication"),
        ({}, "no computation"),
        ([], "not a table"),
    ],
)
@pytest.mark.parametrize("encode", [pickle.dumps, lambda v: json.dumps(v).encode()], ids=["pickle", "json"])
def test_malformed_devices_are_refused_by_name(tmp_path, row, why, encode):
    where = written(tmp_path, "file", encode({"a": {"computation": 1.0, "communication": 5.0}, "bad": row}))
    with pytest.raises(BadInput, match="bad") as told:
        load_devices(where)
    assert why in str(told.value) and str(tmp_path / "file") in str(told.value)


GOOD = {"active": [1], "inactive": [2], "finish_time": 10}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"finish_time": 0}, "finish_time: 0 is not positive"),
        ({"finish_time": -5}, "finish_time: -5 is not positive"),
        ({"finish_time": None}, "finish_time must be"),
        ({"finish_time": float("nan")}, "finish_time: nan"),
        ({"active": [-1]}, "active: -1 is not"),
        ({"active": [float("nan")]}, "active: nan"),
        ({"active": [3]}, "session 0 becomes inactive at 2, before it is active at 3"),
        ({"active": [1, 2]}, "2 times in active, but 1 in inactive"),
        ({"active": [], "inactive": []}, "active must be at least one number"),
        ({"active": None}, "active must be"),
        ({"inactive": [[2]]}, "inactive must be"),
        ({"inactive": "2"}, "inactive must be"),
    ],
)
def test_malformed_states_are_refused_by_name(tmp_path, change, why):
    with pytest.raises(BadInput, match="state bad") as told:
        load_states(written(tmp_path, "file", pickle.dumps({"a": GOOD, "bad": GOOD | change})))
    assert why in str(told.value)


@pytest.mark.parametrize("content", [b"{}", b"[]", b"[1]", pickle.dumps({}), pickle.dumps([1]), b"", b"junk", b"{"])
def test_files_of_another_kind_are_refused(tmp_path, content):
    for load in (load_devices, load_states):
        with pytest.raises(BadInput, match=str(tmp_path)):
            load(written(tmp_path, "file", content))


def test_the_wrong_one_of_the_two_files_says_so(tmp_path):
    with pytest.raises(BadInput, match="devices come from client_device_capacity"):
        load_devices(written(tmp_path, "file", pickle.dumps(BEHAVIOUR)))


def test_never_active_devices_alone_are_refused_and_absent_files_too(tmp_path):
    with pytest.raises(BadInput, match="none of its 1 devices is ever active"):
        load_states(written(tmp_path, "file", {"7": BEHAVIOUR[7]}))
    with pytest.raises(BadInput, match="absent"):
        load_states(f"fedscale:{tmp_path}/absent")
    with pytest.raises(BadInput, match="client_behave_trace"):
        load_states(f"fedscale:{tmp_path}")


def test_a_pickle_that_nests_without_end_is_refused_at_once(tmp_path):
    lists = [0]
    for _ in range(60):  # 2^60 leaves in a few hundred bytes
        lists = [lists, lists]
    itself = []
    itself.append(itself)
    for value in (lists, itself):
        with pytest.raises(BadInput, match="active"):
            load_states(written(tmp_path, "file", pickle.dumps({1: GOOD | {"active": value}})))


@needs_fedscale
def test_real_rows():
    table = load_devices(f"fedscale:{ROOT}/fedscale/capacity_100.json")
    assert len(table) == 100
    assert table.seconds_per_sample[0] == 0.153
    assert mean_kbps(table)[0] == pytest.approx(2209.616, abs=1e-3)
    result, left_out = states_and_left_out(f"{ROOT}/fedscale/availability_100.json")
    assert (len(result), left_out) == (100, 0)
    rows = json.loads((ROOT / "fedscale/availability_100.json").read_text())
    share = [r["duration"] / r["finish_time"] for r in rows.values()]
    assert availability(result) == pytest.approx(share), "FedScale's own durations are the lengths of the sessions"
