"""FLHetBench's files: the published cases where they are there, small ones in the same format elsewhere."""

import json

import pytest

from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import (
    availability,
)
from fedfleet.world.bases import load_devices, load_states
from fedfleet.world.bases.flhetbench import VIT_SECONDS
from tests.real import DEVICE_BASE, STATE_BASE, device_case, needs_data, state_case

pytestmark = pytest.mark.slow


@needs_data
def test_flhetbench_files():
    assert len(load_devices(DEVICE_BASE)) == 168
    case = load_devices(device_case(1))
    assert len(case) == 100
    assert 3 * case.seconds_per_sample[0] == pytest.approx(1.44, abs=0.005), "the compute term of the printed values"
    states = load_states(STATE_BASE)
    assert len(states) == 710
    assert availability(states).mean() == pytest.approx(0.095, abs=0.001)
    assert [len(set(load_states(state_case(i)).ids)) for i in (1, 2, 3, 4)] == [6, 13, 16, 27]


def test_flhetbench_files_that_are_malformed(tmp_path):
    (tmp_path / "d.json").write_text(json.dumps([{"tcp_speed_results": [1.0]}, {"tcp_speed_results": [0]}]))
    with pytest.raises(BadInput, match="device 1"):
        load_devices(f"flhetbench:{tmp_path}/d.json")
    timers = {"7": {"trace_start": 10, "trace_end": 5, "ready_time": [[1, 2]]}, "8": {"ready_time": []}}
    (tmp_path / "t.json").write_text(json.dumps(timers))
    with pytest.raises(BadInput, match="state 7: trace_end"):
        load_states(f"flhetbench:{tmp_path}/t.json")
    (tmp_path / "ids.json").write_text('["8"]')
    with pytest.raises(BadInput, match=r"state 8 .* never ready"):
        load_states(f"flhetbench:{tmp_path}/t.json#{tmp_path}/ids.json")


def test_devices_with_their_latency_file(tmp_path, monkeypatch):
    (tmp_path / "d.json").write_text(json.dumps({"x": {"tcp_speed_kbps": [5.0, 7.0]}, "y": {"tcp_speed_kbps": [9.0]}}))
    (tmp_path / "slow.json").write_text(json.dumps([{"Vit Latency": 300}, {"Vit Latency": 0}, {"Vit Latency": 500}]))
    named = load_devices(f"flhetbench:{tmp_path}/d.json#{tmp_path}/slow.json")
    assert (named.ids.tolist(), named.down.tolist()) == (["x", "y"], [5.0, 7.0, 9.0])
    assert named.seconds_per_sample.tolist() == [0.4, 0.4], "milliseconds, zeros being missing measurements"
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path / "nowhere"))
    assert load_devices(f"flhetbench:{tmp_path}/d.json").seconds_per_sample.tolist() == [VIT_SECONDS] * 2
    (tmp_path / "training_latency.json").write_text(json.dumps([{"Vit Latency": 250}]))
    assert load_devices(f"flhetbench:{tmp_path}/d.json").seconds_per_sample.tolist() == [0.25] * 2
    (tmp_path / "slow.json").write_text("[{}]")
    with pytest.raises(BadInput, match="no row has a Vit Latency"):
        load_devices(f"flhetbench:{tmp_path}/d.json#{tmp_path}/slow.json")


def test_states_in_the_order_of_a_case(tmp_path):
    timers = {
        "7": {"trace_start": 10.9, "trace_end": 110, "ready_time": [[20, 29]]},
        "8": {"ready_time": []},
        "9": {"trace_start": 0, "trace_end": 50, "ready_time": [[0, 9], [10, 19]]},
    }
    (tmp_path / "t.json").write_text(json.dumps(timers))
    (tmp_path / "ids.json").write_text('["9", "7", "9"]')
    assert load_states(f"flhetbench:{tmp_path}/t.json").ids.tolist() == ["7", "9"], "those that are ever ready"
    case = load_states(f"flhetbench:{tmp_path}/t.json#{tmp_path}/ids.json")
    assert case.ids.tolist() == ["9", "7", "9"]
    assert case.traces.begins.tolist() == [0.0, 10.0, 0.0] and case.traces.ends.tolist() == [20.0, 20.0, 20.0]
    assert case.traces.start.tolist() == [0.0, 10.0, 0.0], "starts are cut to whole seconds"
