"""Times that were not reached: a worked example, and laws."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core.errors import BadInput
from fedfleet.measure.statistics.means import mean_of
from fedfleet.measure.statistics.survival import TargetTime, kaplan_meier, median_time, restricted_mean, target_time

pytestmark = pytest.mark.slow

# Freireich's trial of 6-MP, the example of every textbook: weeks of remission of 21 patients, a plus where it had not ended.
WEEKS = [6, 6, 6, 6, 7, 9, 10, 10, 11, 13, 16, 17, 19, 20, 22, 23, 25, 32, 32, 34, 35]
ENDED = [1, 1, 1, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]
RUNS = st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=2, max_size=12)


def test_the_textbooks_example_with_ties_and_censoring():
    steps = kaplan_meier(WEEKS, [bool(e) for e in ENDED])
    assert [s.seconds for s in steps] == [6, 7, 10, 13, 16, 22, 23]
    assert [s.at_risk for s in steps] == [21, 17, 15, 12, 11, 7, 6]
    assert [s.arrived for s in steps] == [3, 1, 1, 1, 1, 1, 1]
    known = [0.8571, 0.8067, 0.7529, 0.6902, 0.6275, 0.5378, 0.4482]
    assert [s.waiting for s in steps] == pytest.approx(known, abs=5e-5)
    assert median_time(WEEKS, [bool(e) for e in ENDED]) == 23


def test_the_textbooks_restricted_mean():
    # Area up to 35 weeks and Greenwood's error as survival packages print them: 23.3 and 2.83, before n / (n - 1).
    result = restricted_mean(WEEKS, [bool(e) for e in ENDED], 35)
    assert result.value == pytest.approx(23.29, abs=5e-3)
    assert result.sd / math.sqrt(21) == pytest.approx(2.83 * math.sqrt(21 / 20), abs=5e-3)


@given(RUNS)
def test_without_censoring_the_curve_is_the_share_that_still_waits(rows):
    times = [t for t, _ in rows]
    for step in kaplan_meier(times, [True] * len(times)):
        assert step.waiting == pytest.approx(np.mean([t > step.seconds for t in times]), abs=1e-12)


@given(RUNS, st.integers(1, 12))
def test_watched_to_the_horizon_the_restricted_mean_is_the_plain_one(rows, horizon):
    times = [t if reached else 12 for t, reached in rows]
    result = restricted_mean(times, [r for _, r in rows], horizon)
    plain = mean_of([min(t, horizon) for t in times], least=0.0, most=horizon)
    assert result.value == pytest.approx(plain.value)
    if result.low is None:
        assert not any(reached and t <= horizon for t, reached in rows)
    else:
        assert (result.sd, result.low, result.high) == pytest.approx((plain.sd, plain.low, plain.high), abs=1e-9)


@given(RUNS)
def test_the_restricted_mean_is_the_area_under_the_curve(rows):
    times, reached = [t for t, _ in rows], [r for _, r in rows]
    horizon = max(times)
    steps = kaplan_meier(times, reached)
    grid = np.arange(horizon) + 0.5
    heights = [next((s.waiting for s in reversed(steps) if s.seconds <= at), 1.0) for at in grid]
    assert restricted_mean(times, reached, horizon).value == pytest.approx(sum(heights))


@given(RUNS, st.sampled_from([0.5, 60.0]))
def test_another_unit_of_time_changes_the_unit_only(rows, scale):
    times, reached = [t for t, _ in rows], [r for _, r in rows]
    one, other = (restricted_mean([s * t for t in times], reached, s * max(times)) for s in (1.0, scale))
    assert other.value == pytest.approx(scale * one.value)
    assert (other.high is None) == (one.high is None) and (one.high is None or other.high == pytest.approx(scale * one.high))
    first, second = (median_time([s * t for t in times], reached) for s in (1.0, scale))
    assert second == (None if first is None else pytest.approx(scale * first))


@given(RUNS)
def test_whoever_was_watched_for_longer_without_arriving_only_delays(rows):
    times, reached = [t for t, _ in rows], [r for _, r in rows]
    longer = [t if r else t + 5 for t, r in rows]
    before, after = (median_time(t, reached) or math.inf for t in (times, longer))
    assert after >= before


def test_times_that_were_not_reached_are_not_left_out():
    assert median_time([10, 20, 99, 99], [True, True, False, False]) == 20
    assert median_time([10, 99, 99, 99], [True, False, False, False]) is None
    assert median_time([10, 20, 30], [True, True, True]) == 20
    assert median_time([3, 4, 5], [False] * 3) is None and kaplan_meier([3, 4], [False, False]) == []


def test_if_nobody_arrived_the_mean_is_the_horizon_without_an_interval():
    result = restricted_mean([50, 60], [False, False], 40)
    assert (result.value, result.low, result.high) == (40, None, None)
    assert restricted_mean([5], [True], 40).low is None


def test_the_first_evaluation_at_the_target_counts_and_a_later_fall_does_not():
    assert target_time([1, 2, 3], [0.1, 0.9, 0.2], 4.0, 0.9) == TargetTime(2.0, True)
    assert target_time([], [], 7.0, 0.9) == TargetTime(7.0, False)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: restricted_mean([5, 6], [True, False], 7), "6 s; give at most 6"),
        (lambda: restricted_mean([5, 6], [True, False], 0), "positive"),
        (lambda: kaplan_meier([], []), "none"),
        (lambda: kaplan_meier([1], [True, False]), "1 times need the same number"),
        (lambda: kaplan_meier([-1], [True]), "negative"),
        (lambda: median_time([float("nan")], [True]), "nan"),
    ],
)
def test_what_cannot_be_known_is_refused(call, word):
    with pytest.raises(BadInput, match=word):
        call()
