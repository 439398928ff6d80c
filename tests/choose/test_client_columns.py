"""Columns over all clients: writing a few rows changes those alone; durations are what was seen to its end, else foreseen."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.choose import client_columns
from fedfleet.choose.client_columns import (
    CENSORED,
    SECONDS,
    empty_durations,
    expected_seconds,
    full_column,
    ledger,
    look_up,
    predicted_seconds,
    update_durations,
    write_rows,
)
from fedfleet.core.records import DROPPED, FOLDED, LOST, REJECTED, WASTED
from tests.choose.rosters import ended, roster

pytestmark = pytest.mark.slow

KINDS = {"count": np.uint16, "value": np.float32}
some_clients = st.lists(st.integers(0, 29), unique=True, max_size=12).map(lambda c: np.array(sorted(c), np.int64))


@settings(deadline=None, derandomize=True, max_examples=150)
@given(st.lists(some_clients, max_size=8), st.lists(some_clients, min_size=1, max_size=3), st.integers(0, 15))
def test_it_is_a_column_that_can_be_written_to(writes, reads, least):
    before, client_columns._MIN_LOG_ROWS = client_columns._MIN_LOG_ROWS, least
    try:
        state, plain = ledger(30, KINDS), {name: np.zeros(30, kind) for name, kind in KINDS.items()}
        for turn, clients in enumerate(writes, start=1):
            for array in state.values():
                array.setflags(write=False)
            rows = {"count": clients + turn, "value": clients / turn}
            state = write_rows(state, clients, rows)
            for name, values in rows.items():
                plain[name][clients] = values
        for name in KINDS:
            assert np.array_equal(full_column(state, name), plain[name]) and full_column(state, name).dtype == KINDS[name]
            for clients in (*reads, np.arange(30)):
                assert np.array_equal(look_up(state, name, clients), plain[name][clients])
    finally:
        client_columns._MIN_LOG_ROWS = before


def test_few_rows_are_written_without_copying_the_columns_and_many_with():
    state = ledger(10_000, KINDS)
    few = write_rows(state, np.arange(100), {"count": np.ones(100), "value": np.ones(100)})
    assert few["count"] is state["count"] and len(few["log"]) == 100
    many = write_rows(few, np.arange(50, 3000), {"count": np.ones(2950), "value": np.ones(2950)})
    assert many["count"].sum() == 3000 and len(many["log"]) == 0 and not state["count"].any()


def test_what_else_is_in_the_state_stays():
    state = {**ledger(3, KINDS), "other": np.ones(2)}
    assert write_rows(state, np.array([1]), {"count": np.ones(1), "value": np.ones(1)})["other"] is state["other"]


def test_the_latency_of_a_trip_counts_once():
    assert predicted_seconds(roster(3, seconds=[5.0, 9.0, np.inf])).tolist() == [5.0, 9.0, np.inf]


def test_what_was_seen_to_its_end_counts_and_replaces_what_is_foreseen():
    for fate in (FOLDED, REJECTED, WASTED):
        state = update_durations(empty_durations(3), ended([1], seconds=50.0, fate=fate))
        assert expected_seconds(state, roster(3, seconds=20.0)).tolist() == [20.0, 50.0, 20.0]


def test_a_device_that_cannot_do_the_work_takes_for_ever():
    state = update_durations(empty_durations(2), ended([0], seconds=np.nan, fate=LOST))
    assert expected_seconds(state, roster(2, seconds=20.0)).tolist() == [np.inf, 20.0]


def test_a_task_that_was_cut_off_is_a_lower_bound_until_one_ends():
    state = update_durations(empty_durations(1), ended([0], seconds=30.0, fate=DROPPED))
    assert expected_seconds(state, roster(1, seconds=20.0)).tolist() == [30.0]
    assert expected_seconds(state, roster(1, seconds=45.0)).tolist() == [45.0]
    state = update_durations(state, ended([0], seconds=12.0))
    assert expected_seconds(state, roster(1, seconds=45.0)).tolist() == [12.0]
    state = update_durations(state, ended([0], seconds=5.0, fate=DROPPED))
    assert expected_seconds(state, roster(1, seconds=45.0)).tolist() == [12.0], "it says nothing that is not known"


@given(
    st.lists(st.tuples(st.floats(0.0, 100.0), st.sampled_from([FOLDED, LOST, DROPPED])), min_size=1),
    st.floats(0.0, 100.0),
)
def test_being_cut_off_never_makes_a_client_look_faster(tasks, ahead):
    state, known = empty_durations(1), ahead
    for seconds, fate in tasks:
        state = update_durations(state, ended([0], seconds=seconds, fate=fate))
        (now,) = expected_seconds(state, roster(1, seconds=ahead))
        assert now >= min(known, seconds) if fate == FOLDED else now >= known - 1e-9
        known = now


def test_what_it_is_given_stays_as_it_was():
    first = empty_durations(2)
    update_durations(first, ended([0, 1], seconds=[1.0, 2.0]))
    assert np.isnan(first[SECONDS]).all() and not first[CENSORED].any()
