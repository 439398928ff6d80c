"""Scales and axes."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.app.pages.charts.axes import (
    Scale,
    axis_end,
    foot_axis,
    left_axis,
    left_axis_width,
    number_ticks,
    reference,
    share_ticks,
    ticks,
    time_scale,
    time_ticks,
)
from fedfleet.app.pages.charts.labels import width_of
from fedfleet.app.pages.charts.marks import SLIM, WIDE


def test_a_scale_maps_its_limits_to_its_ends():
    x = Scale(10, 20, 100, 300)
    assert (x(10), x(20), x(15)) == (100, 300, 200)
    assert Scale(5, 5, 0, 9)(5) == 0, "nothing is divided by zero"
    log = Scale(1, 100, 0, 200, log=True)
    assert log(10) == pytest.approx(100) and log(0.001) == 0 and log(1e9) == 200, "what lies outside is at the edge"


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 97.3), (3, 3.5), (0, 1e6)])
def test_ticks_are_even_and_within_limits(low, high):
    result = ticks(low, high)
    assert low <= result[0] and result[-1] <= high and 3 <= len(result) <= 11
    assert len({round(b - a, 9) for a, b in pairwise(result)}) == 1


@given(st.floats(1e-6, 1e9))
def test_an_axis_ends_above_what_it_holds_and_not_far(value):
    top = axis_end(value)
    assert value * (1 - 1e-9) <= top <= 2 * value
    assert ticks(0, top, 4)[-1] == pytest.approx(top), "and its last tick is there"


def test_only_the_topmost_share_has_a_sign_and_counts_are_whole():
    assert [said for said, _ in share_ticks(0.8)] == ["0", "20", "40", "60", "80 %"]
    assert [value for _, value in number_ticks(3)] == [0, 1, 2, 3]


def test_time_is_logarithmic_over_more_than_two_decades():
    assert not time_scale(3600, 0, 100, first=60).log and time_scale(86400, 0, 100, first=60).log
    assert not time_scale(86400, 0, 100).log, "one line alone begins at 0"
    far = time_scale(20 * 86400.0, 0, 800, first=120.0)
    assert [said for said, _ in time_ticks(far, WIDE)] == [
        "5 min",
        "20 min",
        "1 h",
        "4 h",
        "1 day",
        "4 days",
        "20 days",
    ]
    near = time_scale(14_000, 0, 800)
    assert [said for said, _ in time_ticks(near, WIDE)] == ["start", "1 h", "2 h", "3 h"]
    assert 2 <= len(time_ticks(near, SLIM)) <= 5


def words(marks):
    """(left, right) of the words of an axis."""
    result = []
    for x, anchor, said in re.findall(r'<text x="([-\d.]+)" y="[\d.]+"(?: text-anchor="(\w+)")?>([^<]+)<', "".join(marks)):
        wide, at = width_of(said), float(x)
        result.append(
            (at - wide / 2, at + wide / 2) if anchor == "middle" else (at - wide, at) if anchor == "end" else (at, at + wide)
        )
    return sorted(result)


@given(st.lists(st.integers(0, 1_000_000), min_size=1, max_size=30, unique=True))
def test_words_of_an_axis_neither_meet_nor_leave_it(values):
    x = Scale(0, 1_000_000, 40, 338)
    placed = words(foot_axis(x, [(f"{v:,}", v) for v in sorted(values)], 100))
    assert all(b[0] >= a[1] for a, b in pairwise(placed)) and placed[-1][1] <= 350 + 1e-6


def test_the_left_axis_and_a_reference():
    y = Scale(0, 1, 200, 0)
    made = "".join(left_axis(y, share_ticks(1.0), 40, 300) + reference(y, 0.8, "target: 80 %", 40, 300))
    assert made.count('class="axis"') == 1 and 'y1="40.0"' in made and "target: 80 %" in made
    assert left_axis_width([("1,000,000", 1.0)]) > left_axis_width([("1", 1.0)])


@pytest.mark.parametrize("value", [5e-324, 1e-100, 1e-12, 1e-9, 1e-6, 0.3, 1e6, 1e300])
def test_an_axis_holds_its_largest_value_however_small_or_large(value):
    assert axis_end(value) >= value * (1 - 1e-9)
