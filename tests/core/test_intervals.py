"""Interval arithmetic against a reference that walks second by second."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.errors import BadInput
from fedfleet.core.intervals import finish_after, ready_seconds, ready_until
from tests.worlds import spans_within, traces_of

pytestmark = pytest.mark.slow

laws = settings(deadline=None, derandomize=True, max_examples=150)


def is_ready(spans, period, start, second):
    phase = (second - start) % period
    return any(a <= phase < b for a, b in spans)


def walked(spans, period, start, time, seconds):
    """When `seconds` ready seconds have passed since `time`, one second after the other."""
    left = seconds
    while left > 0:
        left -= is_ready(spans, period, start, time)
        time += 1
    return time


@st.composite
def clients(draw):
    """Up to four clients: spans, periods and starts, all integer."""
    periods = draw(st.lists(st.integers(2, 14), min_size=1, max_size=4))
    return [draw(spans_within(p)) for p in periods], periods, [draw(st.integers(-20, 20)) for _ in periods]


@laws
@given(clients(), st.integers(0, 40), st.data())
def test_finish_after_equals_walking(fleet, time, data):
    spans, periods, starts = fleet
    work = data.draw(st.lists(st.integers(0, 30), min_size=len(spans), max_size=len(spans)))
    result = finish_after(traces_of(spans, periods, starts), np.arange(len(spans)), float(time), np.array(work, float))
    assert result.tolist() == [walked(*each, time, w) for *each, w in zip(spans, periods, starts, work, strict=True)]


@laws
@given(clients(), st.integers(0, 40), st.data())
def test_quarters_of_seconds_are_as_exact_as_seconds(fleet, time, data):
    spans, periods, starts = fleet
    work = data.draw(st.lists(st.integers(0, 30), min_size=len(spans), max_size=len(spans)))
    t = traces_of([tuple((a / 4, b / 4) for a, b in own) for own in spans], np.array(periods) / 4, np.array(starts) / 4)
    result = finish_after(t, np.arange(len(spans)), time / 4, np.array(work) / 4)
    assert (result * 4).tolist() == [walked(*each, time, w) for *each, w in zip(spans, periods, starts, work, strict=True)]


@laws
@given(clients(), st.integers(0, 40))
def test_ready_until_equals_looking(fleet, time):
    spans, periods, starts = fleet
    ready, until = ready_until(traces_of(spans, periods, starts), np.arange(len(spans)), float(time))
    for own, period, start, answer, end in zip(spans, periods, starts, ready, until, strict=True):
        assert end > time
        assert all(is_ready(own, period, start, s) == answer for s in range(time, int(end)))
        # An answer holds as long as it can; it may be given anew where two spans touch, also across the period's turn.
        edges = {x % period for span in own for x in span}
        assert is_ready(own, period, start, int(end)) != answer or (end - start) % period in edges


@laws
@given(clients(), st.integers(0, 40), st.integers(1, 30))
def test_doubling_all_times_doubles_all_answers(fleet, time, work):
    spans, periods, starts = fleet
    # Thirds are not exact in binary, so that rounding itself must scale.
    spans, periods, starts = (
        [tuple((a / 3, b / 3) for a, b in own) for own in spans],
        np.array(periods) / 3,
        np.array(starts) / 3,
    )
    who = np.arange(len(spans))
    one, two = (traces_of([tuple((a * k, b * k) for a, b in own) for own in spans], periods * k, starts * k) for k in (1, 2))
    seconds = np.full(len(who), work / 7)
    assert np.array_equal(2 * finish_after(one, who, time / 3, seconds), finish_after(two, who, 2 * time / 3, 2 * seconds))
    assert np.array_equal(2 * ready_until(one, who, time / 3)[1], ready_until(two, who, 2 * time / 3)[1])


def test_work_that_exactly_fills_a_period_ends_inside_it():
    t = traces_of([((2.0, 5.0), (7.0, 8.0))], [10.0])
    who = np.array([0])
    assert finish_after(t, who, 0.0, np.array([4.0])) == 8.0
    assert finish_after(t, who, 0.0, np.array([3.0])) == 5.0
    assert finish_after(t, who, 3.0, np.array([4.0])) == 13.0
    assert finish_after(t, who, 0.0, np.array([40.0])) == 98.0


def test_sums_are_the_same_with_and_without_company():
    """Exact parts of seconds take the quick way, thirds the other; both give each trace its own sums."""
    spans = [((0.0, 0.25), (0.5, 2.0)), ((0.125, 1.0),)]
    quick = traces_of(spans, [3.0, 2.0])
    mixed = traces_of([*spans, ((0.0, 1 / 3),)], [3.0, 2.0, 1.0])
    assert quick.before.tolist() == mixed.before.tolist()[:3] == [0.0, 0.25, 0.0]
    assert quick.total.tolist() == mixed.total.tolist()[:2] == [1.75, 0.875]


def test_work_of_no_length_is_done_at_once():
    assert finish_after(traces_of([((2.0, 5.0),)], [10.0]), np.array([0]), 6.0, np.array([0.0])) == 6.0


def test_an_answer_does_not_depend_on_who_else_is_asked():
    spans = [((0.1, 0.4),), ((0.2, 0.5), (0.7, 0.9)), ((0.0, 1.0),)]
    together, alone = traces_of(spans, [1.0, 1.1, 1.3]), traces_of(spans[1:2], [1.1])
    assert finish_after(together, np.array([1]), 3.3, np.array([2.2])) == finish_after(alone, np.array([0]), 3.3, np.array([2.2]))


@pytest.mark.parametrize(
    ("bad", "period", "why"),
    [
        ((), 10.0, "never ready"),
        (((3.0, 3.0),), 10.0, "does not end after it begins"),
        (((5.0, 3.0),), 10.0, "does not end after it begins"),
        (((np.nan, 3.0),), 10.0, "does not end after it begins"),
        (((-1.0, 3.0),), 10.0, "outside its period"),
        (((8.0, 11.0),), 10.0, "outside its period"),
        (((0.0, 5.0), (4.0, 6.0)), 10.0, "overlap"),
        (((5.0, 6.0), (0.0, 1.0)), 10.0, "overlap"),
        (((0.0, 1.0),), 0.0, "period is not positive"),
    ],
)
def test_bad_intervals_are_refused_by_client(bad, period, why):
    fine = ((0.0, 5.0),)
    with pytest.raises(BadInput, match=f"client 1: .*{why}"):
        traces_of([fine, bad, fine], [10.0, period, 10.0])


@laws
@given(spans_within(24), st.integers(-30, 30), st.integers(0, 60), st.integers(0, 60))
def test_ready_seconds_are_what_one_counts(spans, start, time, seconds):
    counted = sum(is_ready(spans, 24, start, time + k) for k in range(seconds))
    t = traces_of([spans], [24.0], [float(start)])
    result = ready_seconds(t, np.array([0]), float(time), np.array([float(time + seconds)]))
    assert result.tolist() == [counted]
    ends = finish_after(t, np.array([0]), float(time), np.array([float(counted)]))
    assert ready_seconds(t, np.array([0]), float(time), ends).tolist() == [counted]
