"""Counters of several processes that die and begin again: their sum never falls and forgets nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.runtime.wire.operations.counting import (
    BOUNDS,
    INFLIGHT_BYTES,
    OPEN_CALLS,
    Counts,
    Totals,
    cumulated,
    gone,
    heard,
    summed,
)

# What happens at two transmitters: (place, what); a count, a level up, a level down, telling, or death.
STEPS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(["count", "open", "close", "tell", "die", "noticed death"])),
    max_size=60,
)


@given(STEPS)
def test_the_sum_is_all_that_was_told_and_never_falls(steps):
    totals, pids, made = Totals(), [100, 200], [Counts(), Counts()]
    told_by: dict[int, float] = {}  # by pid: what it told last
    before = 0.0
    for place, what in steps:
        if what == "count":
            made[place].add("strikes")
        elif what in ("open", "close"):
            made[place].add(OPEN_CALLS, 1 if what == "open" else -1)
        elif what == "tell":
            said = made[place].said()
            told_by[pids[place]] = said.get("strikes", told_by.get(pids[place], 0.0))
            totals = heard(totals, place, pids[place], said)
        else:
            if what == "noticed death":
                totals = gone(totals, place)
            pids[place], made[place] = pids[place] + 1, Counts()
        now = summed(totals).get("strikes", 0.0)
        assert now == sum(told_by.values()) and now >= before
        before = now


def test_a_process_that_begins_anew_under_the_same_number_is_noticed_by_what_fell():
    totals = heard(Totals(), 0, 7, {"bytes_up": 500.0, "strikes": 2.0})
    totals = heard(totals, 0, 7, {"bytes_up": 10.0})
    assert summed(totals) == {"bytes_up": 510.0, "strikes": 2.0}


def test_levels_rise_and_fall_and_go_with_their_process():
    totals = heard(heard(Totals(), 0, 1, {INFLIGHT_BYTES: 70.0}), 1, 2, {INFLIGHT_BYTES: 30.0})
    assert summed(totals)[INFLIGHT_BYTES] == 100.0
    totals = heard(totals, 0, 1, {INFLIGHT_BYTES: 5.0})
    assert summed(totals)[INFLIGHT_BYTES] == 35.0
    assert summed(gone(totals, 0))[INFLIGHT_BYTES] == 30.0
    assert summed(heard(totals, 1, 3, {}))[INFLIGHT_BYTES] == 5.0
    assert gone(totals, 9) is totals


def test_only_what_changed_is_told():
    counts = Counts()
    counts.add("bytes_up", 10)
    assert counts.said() == {"bytes_up": 10.0}
    assert counts.said() == {}
    counts.add("strikes")
    assert counts.said() == {"strikes": 1.0}


def test_nobody_can_make_up_names_of_methods_or_codes():
    counts = Counts()
    counts.call("Hand")
    counts.call("/etc/passwd", "UNIMPLEMENTED")
    counts.call("Check", "NONSENSE")
    assert counts.said() == {"calls/Hand/OK": 1.0, "calls/other/UNIMPLEMENTED": 1.0, "calls/Check/other": 1.0}


def test_methods_and_codes_are_those_of_the_service():
    import grpc

    from fedfleet.runtime.wire import fleet_pb2
    from fedfleet.runtime.wire.operations.counting import CODES, METHODS

    service = fleet_pb2.DESCRIPTOR.services_by_name["Fleet"]
    assert set(METHODS) == {method.name for method in service.methods}
    assert set(CODES) <= {code.name for code in grpc.StatusCode}


@given(st.lists(st.floats(0, 1e6), max_size=30))
def test_the_histogram_counts_each_report_once(seconds):
    counts = Counts()
    for s in seconds:
        counts.received(s)
    found = cumulated(counts.said())
    for bound, number in found:
        assert number == sum(s <= bound for s in seconds)
    assert [bound for bound, _ in found[:-1]] == list(BOUNDS)


def test_the_sum_of_receive_seconds_is_kept():
    counts = Counts()
    counts.received(0.2)
    counts.received(0.3)
    assert counts.said()["receive_seconds_sum"] == pytest.approx(0.5)
