"""Counters of several processes that die and begin again: their sum never falls and forgets nothing."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from fedfleet.network.operations.counters import (
    BOUNDS,
    INFLIGHT_BYTES,
    OPEN_CALLS,
    Totals,
    buckets_of,
    count_call,
    count_report,
    end_process,
    sum_totals,
    update_process,
)

# What happens at two transmitters: (place, what); a count, a level up, a level down, telling, or death.
STEPS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(["count", "open", "close", "tell", "die", "noticed death"])),
    max_size=60,
)


@given(STEPS)
def test_the_sum_is_all_that_was_told_and_never_falls(steps):
    totals, lives, made = Totals(), [100, 200], [Counter(), Counter()]
    told_by: dict[int, float] = {}  # by life: what it told last
    before = 0.0
    for place, what in steps:
        if what == "count":
            made[place]["strikes"] += 1
        elif what in ("open", "close"):
            made[place][OPEN_CALLS] += 1 if what == "open" else -1
        elif what == "tell":
            said = dict(made[place])
            told_by[lives[place]] = said.get("strikes", told_by.get(lives[place], 0.0))
            totals = update_process(totals, place, lives[place], said)
        else:
            if what == "noticed death":
                totals = end_process(totals, place)
            lives[place], made[place] = lives[place] + 1, Counter()
        now = sum_totals(totals).get("strikes", 0.0)
        assert now == sum(told_by.values()) and now >= before
        before = now


def test_a_process_that_begins_anew_under_the_same_number_is_noticed_by_what_fell():
    totals = update_process(Totals(), 0, 7, {"bytes_up": 500.0, "strikes": 2.0})
    totals = update_process(totals, 0, 7, {"bytes_up": 10.0})
    assert sum_totals(totals) == {"bytes_up": 510.0, "strikes": 2.0}


def test_levels_rise_and_fall_and_go_with_their_process():
    totals = update_process(update_process(Totals(), 0, 1, {INFLIGHT_BYTES: 70.0}), 1, 2, {INFLIGHT_BYTES: 30.0})
    assert sum_totals(totals)[INFLIGHT_BYTES] == 100.0
    totals = update_process(totals, 0, 1, {INFLIGHT_BYTES: 5.0})
    assert sum_totals(totals)[INFLIGHT_BYTES] == 35.0
    assert sum_totals(end_process(totals, 0))[INFLIGHT_BYTES] == 30.0
    assert sum_totals(update_process(totals, 1, 3, {}))[INFLIGHT_BYTES] == 5.0
    assert end_process(totals, 9) is totals


def test_what_is_left_out_has_not_changed():
    totals = update_process(Totals(), 0, 1, {"bytes_up": 10.0})
    assert sum_totals(update_process(totals, 0, 1, {"strikes": 1.0})) == {"bytes_up": 10.0, "strikes": 1.0}


def test_nobody_can_make_up_names_of_methods_or_codes():
    counts = Counter()
    count_call(counts, "Hand")
    count_call(counts, "/etc/passwd", "UNIMPLEMENTED")
    count_call(counts, "Check", "NONSENSE")
    assert counts == {"calls/Hand/OK": 1, "calls/other/UNIMPLEMENTED": 1, "calls/Check/other": 1}


def test_methods_and_codes_are_those_of_the_service():
    import grpc

    from fedfleet.network.operations.counters import CODES, METHODS
    from fedfleet.network.protocol import fleet_pb2

    service = fleet_pb2.DESCRIPTOR.services_by_name["Fleet"]
    assert set(METHODS) == {method.name for method in service.methods}
    assert set(CODES) <= {code.name for code in grpc.StatusCode}


@given(st.lists(st.floats(0, 1e6), max_size=30))
def test_the_histogram_counts_each_report_once(seconds):
    counts = Counter()
    for s in seconds:
        count_report(counts, s)
    result = buckets_of(counts)
    for bound, number in result:
        assert number == sum(s <= bound for s in seconds)
    assert [bound for bound, _ in result[:-1]] == list(BOUNDS)
