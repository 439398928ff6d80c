"""State sources: who is reachable when, and files with periodic ready intervals."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import StateTable, take_states, unshared_states
from fedfleet.core.rng import client_keys, uniforms
from fedfleet.world.states import always_on, daily, interval_states, state_file
from tests.worlds import spans_within, traces_of

pytestmark = pytest.mark.slow

KEYS = client_keys(400)
DAY = 86400.0


def test_always_on():
    source = always_on()(KEYS, 0)
    assert source.online(123.0).all()
    assert source.finish(np.array([0, 1]), 5.0, np.array([2.0, 3.0])).tolist() == [7.0, 8.0]


def daily_shares(source, times):
    return np.mean([source.online(t) for t in times], axis=0)


@pytest.mark.parametrize("ready", [0.1, 0.3, 0.6])
@pytest.mark.parametrize("sessions", [1, 3, 7])
def test_daily_shares_are_near_ready(ready, sessions):
    shares = daily_shares(daily(ready=ready, sessions=sessions)(KEYS, 0), np.arange(0.0, DAY, 240.0))
    # Each client's own share is uniform between half and one and a half times `ready`; 400 of them are averaged.
    assert abs(shares.mean() - ready) < 0.05 * ready
    assert shares.min() > 0.45 * ready - 0.01
    assert shares.max() < 1.55 * ready + 0.01


@pytest.mark.parametrize(("day", "sessions"), [(60.0, 7), (8.0, 4), (86400.0, 20_000)])
def test_short_slots_keep_the_share_too(day, sessions):
    source = daily(ready=0.3, sessions=sessions, day=day)(KEYS[:60], 0)
    moments = np.random.default_rng(0).uniform(0.0, day, 400)
    assert daily_shares(source, np.sort(moments)).mean() == pytest.approx(0.3, abs=0.03)


short_days = st.floats(-30.0, 12.0).map(lambda power: 2.0**power)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(day=short_days, ready=st.floats(0.02, 1.0), sessions=st.integers(1, 12), seed=st.integers(0, 99))
def test_slots_of_any_length_are_ready_for_their_share_counted_moment_by_moment(day, ready, sessions, seed):
    keys, parts = KEYS[:7], 6000
    source = daily(ready=ready, sessions=sessions, day=day)(keys, seed)
    moments = (np.arange(parts) + 0.5) * (day / parts)
    seen = np.array([source.online(t) for t in moments])
    asked = ready + min(0.5 * ready, 1.0 - ready) * (2.0 * uniforms(seed, "ready", keys) - 1.0)
    # Each session may gain or lose a moment at either end; it is cut by at most a hundredth.
    assert seen.mean(axis=0) == pytest.approx(asked, rel=0.011, abs=2 * sessions / parts)
    work = asked * day / 3
    done = source.finish(np.arange(7), float(moments[0]), work)
    worked = [seen[(moments >= moments[0]) & (moments < end), i].sum() * day / parts for i, end in enumerate(done)]
    assert worked == pytest.approx(work, rel=0.011, abs=(2 * sessions + 2) * day / parts)


@pytest.mark.parametrize("sessions", [1, 3, 20])
def test_very_short_days_are_long_ones_seen_from_afar(sessions):
    day = 0.75 * sessions  # sessions last less than a second
    near = daily(ready=0.3, sessions=sessions, day=day)(KEYS[:50], 1)
    for power in (-1, -9, -40, -300):
        far = daily(ready=0.3, sessions=sessions, day=day * 2.0**power)(KEYS[:50], 1)
        for t in np.random.default_rng(0).uniform(0.0, 3 * day, 40):
            assert np.array_equal(near.online(t), far.online(t * 2.0**power)), "the same to the last bit"


def test_every_day_is_the_same_day():
    source = daily(ready=0.3)(KEYS, 0)
    assert all(np.array_equal(source.online(t), source.online(t + 3 * DAY)) for t in (0.0, 7777.0, 50_000.0))


def test_finish_waits_for_the_next_session():
    source = daily(ready=0.2)(KEYS, 0)
    away = np.flatnonzero(~source.online(1000.0))
    here = np.flatnonzero(source.online(1000.0))
    assert (source.finish(away, 1000.0, np.ones(len(away))) > 1001.0).all()
    assert (source.finish(here, 1000.0, np.full(len(here), 1e-3)) <= 1001.0).mean() > 0.9


def test_states_belong_to_the_key_and_not_to_the_index():
    order = np.random.default_rng(0).permutation(400)
    before, after = daily()(KEYS, 0), daily()(KEYS[order], 0)
    assert all(np.array_equal(before.online(t)[order], after.online(t)) for t in (0.0, 9999.0, 70_000.0))


def test_swing_gathers_sessions_early_in_their_slots():
    # With one session a day the slot is the day: a strong swing moves begins towards its first hour.
    flat, swung = (daily(ready=0.1, sessions=1, swing=s)(KEYS, 0) for s in (0.0, 4.0))
    early = np.arange(0.0, DAY / 4, 600.0)
    assert daily_shares(swung, early).mean() > 1.3 * daily_shares(flat, early).mean()


@settings(deadline=None, derandomize=True, max_examples=80)
@given(st.data(), st.lists(st.integers(0, 90).map(float), min_size=1, max_size=12))
def test_online_equals_a_fresh_computation_also_when_time_goes_back(data, times):
    periods = data.draw(st.lists(st.integers(2, 30), min_size=1, max_size=5))
    spans = [data.draw(spans_within(p)) for p in periods]
    starts = [data.draw(st.integers(-10, 10)) for _ in periods]
    t = traces_of(spans, periods, starts)
    remembering = interval_states(t)
    for time in times:
        literal = [
            any(a <= (time - start) % period < b for a, b in own) for own, period, start in zip(spans, periods, starts, strict=True)
        ]
        assert remembering.online(time).tolist() == literal
        assert interval_states(t).online(time).tolist() == literal


@pytest.mark.parametrize("clients", [np.array([0]), np.array([0, 0])])
def test_an_answer_once_given_stands(clients):
    states = take_states(StateTable(np.array(["a"]), traces_of([((0.0, 5.0),)], [10.0])), clients)
    source = interval_states(states.traces)
    first = source.online(0.0)
    assert not source.online(7.0)[0]
    assert first[0]


def test_clients_that_share_traces_are_told_what_each_would_be_told_alone(monkeypatch):
    spans = [((0.0, 5.0),), ((2.0, 3.0), (4.0, 9.5)), ((1.0, 2.0),)]
    states = take_states(StateTable(np.array(["a", "b", "c"]), traces_of(spans, [10.0, 11.0, 7.0])), np.arange(20) * 7 % 3)
    monkeypatch.setattr("fedfleet.world.states._PIECE", 2)
    shared, alone = interval_states(states.traces, 17), interval_states(unshared_states(states).traces, 17)
    for time in (0.0, 1.5, 4.0, 40.0, 3.0, 1e6):
        assert shared.online(time).tolist() == alone.online(time).tolist()
        assert len(shared.online(time)) == 17
        who, work = np.arange(17), np.linspace(0.0, 30.0, 17)
        assert np.array_equal(shared.finish(who, time, work), alone.finish(who, time, work))


def written(tmp_path, *rows, form="fedfleet/states@1"):
    path = tmp_path / "states.json"
    path.write_text(json.dumps({"format": form, "states": list(rows)}))
    return str(path)


def a_state(**changes):
    return {"id": "a", "start": 0, "end": 100, "ready": [[10, 19]], **changes}


def online_of_first(source, times):
    return [bool(source.online(t)[0]) for t in times]


def test_an_interval_covers_its_last_second_and_repeats(tmp_path):
    source = state_file(written(tmp_path, a_state()))(KEYS[:1], 0)
    # [10, 19] covers 10 to 20, every 100 seconds.
    assert online_of_first(source, [9.0, 9.99, 10.0, 19.0, 19.99, 20.0, 110.0, 119.5, 120.0]) == [
        False, False, True, True, True, False, True, True, False,
    ]  # fmt: skip
    assert source.finish(np.array([0]), 0.0, np.array([10.0])) == 20.0
    assert source.finish(np.array([0]), 0.0, np.array([11.0])) == 111.0


def test_seconds_are_absolute_and_the_clock_starts_at_zero(tmp_path):
    source = state_file(written(tmp_path, a_state(start=250, end=350, ready=[[260, 269]])))(KEYS[:1], 0)
    # Phase (t - 250) mod 100: at 0 it is 50, so the first ready second is 60.
    assert online_of_first(source, [0.0, 59.0, 60.0, 69.0, 70.0, 160.0, 260.0]) == [
        False,
        False,
        True,
        True,
        False,
        True,
        True,
    ]


def test_one_second_is_a_second(tmp_path):
    source = state_file(written(tmp_path, a_state(ready=[[5, 5]])))(KEYS[:1], 0)
    assert online_of_first(source, [4.5, 5.0, 5.5, 6.0]) == [False, True, True, False]


def test_intervals_may_touch_and_come_in_any_order_and_their_last_second_is_cut_at_the_end(tmp_path):
    messy = state_file(written(tmp_path, a_state(ready=[[90, 100], [10, 19], [20, 29], [30, 34]])))(KEYS[:1], 0)
    tidy = interval_states(traces_of([((10.0, 35.0), (90.0, 100.0))], [100.0]))
    times = np.arange(0.0, 300.0, 0.5)
    assert online_of_first(messy, times) == online_of_first(tidy, times)


def test_more_rows_than_clients_are_fine_and_fewer_are_not(tmp_path):
    path = written(tmp_path, a_state(), a_state(id="b", ready=[[0, 99]]), a_state(id="c"))
    assert state_file(path)(KEYS[:2], 0).online(50.0).tolist() == [False, True]
    with pytest.raises(BadInput, match="3 states for 4 clients"):
        state_file(path)(KEYS[:4], 0)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"ready": []}, "state b: it is never ready"),
        ({"ready": None}, "state b: it is never ready"),
        ({"ready": [[20, 10]]}, "state b: interval 0 ends before it begins"),
        ({"ready": [[0, 1], [100, 101]]}, "state b: interval 1 begins outside"),
        ({"ready": [[-5, 1]]}, "state b: interval 0 begins outside"),
        ({"ready": [[90, 101]]}, "state b: interval 0 ends after the state's own end 100"),
        ({"ready": [[10, 19], [50, 60], [19, 29]]}, "state b: intervals 0 and 2 overlap"),
        ({"sleep": 3}, r"row 1 \(b\) has an unknown key 'sleep'"),
        ({"id": "a", "ready": [[7, 9]]}, "row 1 has the id 'a' of row 0, but their values differ"),
        ({"ready": [[1, 2, 3]]}, "state b: interval 0"),
        ({"ready": [5]}, "state b: interval 0"),
        ({"ready": [["x", 2]]}, "state b: interval 0"),
        ({"end": 0}, "state b: end 0.0 is not after start 0.0"),
        ({"start": None}, "state b: start and end"),
        ({"id": None}, "row 1 has no id"),
    ],
)
def test_a_malformed_row_is_refused_by_name(tmp_path, changes, why):
    path = written(tmp_path, a_state(), a_state(**{"id": "b", **changes}))
    with pytest.raises(BadInput, match=why):
        state_file(path)(KEYS[:2], 0)


def test_a_devices_file_is_no_states_file(tmp_path):
    with pytest.raises(BadInput, match="fedfleet/states@1"):
        state_file(written(tmp_path, a_state(), form="fedfleet/devices@1"))(KEYS[:1], 0)
