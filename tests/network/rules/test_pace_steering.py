"""When a device without work should come back."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.network.rules.pace_steering import (
    Arrivals,
    Outlook,
    Pace,
    PaceSteering,
    ServerActivity,
    add_arrivals,
    bearable_calls,
    rate,
    return_delays,
    seconds_to_work,
    spread_seconds,
)


@given(st.floats(0, 1e6) | st.just(math.inf), st.integers(1, 10**7), st.integers(0, 2**40), st.integers(0, 99))
def test_every_wait_is_bounded(likely, fleet, first, round):
    clients = np.arange(first, first + 5)
    waits = return_delays(clients, round, likely=likely, fleet=fleet, min_seconds=2.0, max_seconds=60.0, calls_per_second=100.0)
    assert (waits >= 2.0).all()
    assert (waits <= max(60.0, 2.0 + spread_seconds(fleet, 100.0))).all()


def test_a_small_fleet_returns_together_and_a_large_one_never_in_one_instant():
    together = return_delays(np.arange(500), 3, likely=20.0, fleet=500)
    assert (together == 20.0).all()
    spread = return_delays(np.arange(100_000), 3, likely=20.0, fleet=100_000)
    assert spread.min() >= 20.0
    per_second = np.bincount(spread.astype(int))
    assert per_second.max() <= 1.2 * 1000.0


def test_who_is_last_changes_by_round_and_is_the_same_for_whoever_computes_it():
    clients = np.arange(1000)
    one, two = (return_delays(clients, r, likely=5.0, fleet=10**6) for r in (1, 2))
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.15
    assert np.array_equal(one[7:8], return_delays(np.array([7]), 1, likely=5.0, fleet=10**6))


def test_what_is_likely():
    reports = ServerActivity.AWAITING_REPORTS
    assert seconds_to_work(Outlook(ServerActivity.AWAITING_FLEET)) == 0.0
    assert seconds_to_work(Outlook(reports, missing=10, per_second=0.0)) == math.inf
    assert seconds_to_work(Outlook(reports, missing=10, per_second=0.0, until_end=30.0)) == 30.0
    assert seconds_to_work(Outlook(reports, missing=10, per_second=2.0, until_end=30.0)) == 5.0
    assert seconds_to_work(Outlook(reports, missing=0)) == 0.0
    assert seconds_to_work(Outlook(ServerActivity.WORKING, usual_seconds=4.0, elapsed=1.0)) == 3.0
    assert seconds_to_work(Outlook(ServerActivity.WORKING, usual_seconds=4.0, elapsed=9.0)) == 0.0


@pytest.mark.parametrize("seconds", [5, 60, 600])
def test_a_steady_stream_is_measured_rightly_from_the_start(seconds):
    seen = Arrivals(began=100.0)
    for i in range(10 * seconds):
        seen = add_arrivals(seen, 1, 100.0 + i / 10)
    assert rate(seen, 100.0 + seconds) == pytest.approx(10.0, rel=0.02)


def test_a_rate_fades_when_nothing_comes():
    seen = add_arrivals(Arrivals(began=0.0, half_life=10.0), 100, 50.0)
    assert rate(seen, 60.0) < 0.6 * rate(seen, 50.0)
    assert rate(seen, 10_000.0) == pytest.approx(0.0, abs=1e-12)
    assert rate(Arrivals(began=0.0), 0.0) == 0.0
    assert rate(seen, 49.0) > 0  # a clock that went back


def test_a_round_of_which_nothing_came_lasts_as_long_again_and_a_new_rate_is_not_trusted_for_long():
    reports = ServerActivity.AWAITING_REPORTS
    assert seconds_to_work(Outlook(reports, missing=10, elapsed=60.0)) == 60.0
    assert seconds_to_work(Outlook(reports, missing=10_000, per_second=10.0, elapsed=2.0)) == 8.0
    assert seconds_to_work(Outlook(reports, missing=10_000, per_second=10.0, elapsed=2.0, usual_seconds=90.0)) == 88.0
    assert seconds_to_work(Outlook(reports, missing=100, per_second=10.0, elapsed=2.0, usual_seconds=90.0)) == 10.0
    assert seconds_to_work(Outlook(reports, missing=100, per_second=10.0, elapsed=95.0, usual_seconds=90.0)) == 10.0


def follow(steering, start, seconds, per_second=0, missing=1000, **doing):
    """The paces that are told while a server does this for so long, looking ten times a second."""
    told = []
    for i in range(1, 10 * seconds + 1):
        for _ in range(per_second // 10):
            steering.on_arrival()
        now = start + i / 10
        left = missing - per_second * i // 10
        told.append(steering.on_turn(now, working=False, round_end=None, missing=left, **{"asking": False, **doing}))
    return [pace for pace in told if pace is not None]


def test_pauses_between_rounds_do_not_slow_the_rate_down():
    steering = PaceSteering(0.0)
    follow(steering, 0.0, 50, asking=True)
    first = follow(steering, 50.0, 10, per_second=2000, missing=20_000)[-1]
    assert first.calls_per_second == pytest.approx(bearable_calls(2000.0), rel=0.1)
    follow(steering, 60.0, 600, asking=True)
    second = follow(steering, 660.0, 2, per_second=2000, missing=20_000)[-1]
    assert second.calls_per_second == pytest.approx(bearable_calls(2000.0), rel=0.1)
    assert second.seconds == pytest.approx(8.0, rel=0.2)


def test_a_slow_server_is_called_as_often_as_before():
    assert bearable_calls(0.0) == bearable_calls(500.0) == Pace(1.0).calls_per_second


def test_what_is_news_is_told_once():
    steering = PaceSteering(0.0)
    assert len(follow(steering, 0.0, 20, asking=True)) == 1
