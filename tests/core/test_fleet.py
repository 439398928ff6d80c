"""Tables of devices and states: what is taken from them, and that sharing rows changes no answer."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.fleet import (
    StateTable,
    availability,
    client_ids,
    device_table,
    flatten_spans,
    mean_kbps,
    take_devices,
    take_spans,
    take_states,
    unshared_devices,
    unshared_states,
)
from fedfleet.core.intervals import finish_after, phase_of, ready_until
from tests.worlds import traces_of

laws = settings(deadline=None, derandomize=True, max_examples=50)

DEVICES = device_table(
    ["a", "b", "c"], [[1e4, 2e4], [5e3], [7e3, 8e3, 9.1e3]], [0.1, 0.2, 0.3], [[], [4e3], []],
    np.array([[0.0, 0.0], [0.02, 0.08], [0.0, 0.0]]), np.array([4.0, np.nan, 2.0]), np.array([1024.0, np.nan, np.nan]),
)  # fmt: skip
STATES = StateTable(
    np.array(["x", "y", "z"]),
    traces_of([((0.0, 10.0), (20.0, 30.1)), ((5.0, 6.0),), ((0.3, 0.7),)], [100.0, 50.0, 1.1], [1000.0, -7.0, 0.2]),
)
choices = st.lists(st.integers(0, 2), min_size=1, max_size=8).map(lambda rows: np.array(rows, np.int64))


def test_rows_of_different_length_become_one_array_and_back():
    values, offsets = flatten_spans([[1.0, 2.0], [], [3.0]])
    assert (values.tolist(), offsets.tolist()) == ([1.0, 2.0, 3.0], [0, 2, 2, 3])
    taken, new = take_spans(values, offsets, np.array([2, 0, 1, 2]))
    assert (taken.tolist(), new.tolist()) == ([3.0, 1.0, 2.0, 3.0], [0, 1, 3, 3, 4])


def test_what_is_left_out_of_a_device_table_is_absent():
    table = device_table(["a", "b"], [[1.0], [2.0]], [0.1, 0.2])
    assert np.diff(table.up_offsets).tolist() == [0, 0]
    assert not table.latency.any()
    assert np.isnan(table.cores).all() and np.isnan(table.memory_mb).all()


def test_a_permutation_has_a_row_for_each_client():
    table = take_devices(DEVICES, np.array([2, 0]))
    assert table.row_index is None
    assert table.ids.tolist() == ["c", "a"]
    assert table.down.tolist() == [7e3, 8e3, 9.1e3, 1e4, 2e4]


def test_repeated_clients_share_a_row():
    table = take_devices(DEVICES, np.array([2, 0, 2, 2]))
    assert len(table) == 4 and len(table.ids) == 2
    assert client_ids(table).tolist() == ["c", "a", "c", "c"]
    alone = unshared_devices(table)
    assert alone.row_index is None and len(alone) == 4
    assert alone.down.tolist() == [7e3, 8e3, 9.1e3, 1e4, 2e4, 7e3, 8e3, 9.1e3, 7e3, 8e3, 9.1e3]
    assert unshared_devices(alone) is alone


@laws
@given(choices)
def test_sharing_devices_changes_no_summary(clients):
    shared = take_devices(DEVICES, clients)
    alone = unshared_devices(shared)
    assert client_ids(shared).tolist() == alone.ids.tolist() == DEVICES.ids[clients].tolist()
    assert np.array_equal(mean_kbps(shared), mean_kbps(alone))
    assert np.array_equal(alone.seconds_per_sample, DEVICES.seconds_per_sample[clients])


@laws
@given(choices, st.floats(-100, 1e4), st.floats(0, 500))
def test_sharing_traces_changes_no_answer(clients, time, work):
    shared = take_states(STATES, clients)
    alone = unshared_states(shared)
    everyone, seconds = np.arange(len(clients)), np.full(len(clients), work)
    assert client_ids(shared).tolist() == alone.ids.tolist()
    assert np.array_equal(availability(shared), availability(alone))
    for result in (shared.traces, alone.traces):
        assert np.array_equal(phase_of(result, everyone, time), phase_of(STATES.traces, clients, time))
        assert np.array_equal(finish_after(result, everyone, time, seconds), finish_after(STATES.traces, clients, time, seconds))
        for mine, theirs in zip(ready_until(result, everyone, time), ready_until(STATES.traces, clients, time), strict=True):
            assert np.array_equal(mine, theirs)


def test_availability_is_the_ready_share_of_the_period():
    assert availability(take_states(STATES, np.array([1, 0, 1]))).tolist() == pytest.approx([0.02, 0.201, 0.02])
