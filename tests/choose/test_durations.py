"""Durations: seen to the end, cut off, foreseen, impossible; and never faster because a task was given up."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.choose.durations import (
    CENSORED,
    SECONDS,
    empty_durations,
    expected_seconds,
    predicted_seconds,
    update_durations,
)
from fedfleet.core.records import DROPPED, FOLDED, LOST, REJECTED, WASTED
from tests.choose.rosters import ended, roster


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
