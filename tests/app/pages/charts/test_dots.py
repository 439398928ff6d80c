"""Dots on two axes."""

import re

import pytest

from fedfleet.app.pages.charts.dots import Axis, Point, dots
from fedfleet.app.pages.charts.marks import SLIM, WIDE

X = Axis(0, 100, [("0", 0), ("100", 100)], "Mbit/s")
Y = Axis(0.01, 1.0, [("1 %", 0.01), ("100 %", 1.0)], "reachable", log=True)


def circles(drawing):
    return [tuple(map(float, c)) for c in re.findall(r'cx="([\d.]+)" cy="([\d.]+)" r="([\d.]+)"', "".join(drawing.marks))]


def test_dots_stand_where_their_values_are_and_small_ones_lie_on_top():
    made = dots([Point(50, 0.1, 3), Point(100, 1.0, 9, "late-area")], WIDE, X, Y)
    large, small = circles(made)
    assert large[2] == 9 and small[0] < large[0] and small[1] > large[1]
    middle = (dots([Point(0, 0.1)], WIDE, X, Y), dots([Point(0, 0.01)], WIDE, X, Y), dots([Point(0, 1.0)], WIDE, X, Y))
    a, low, high = (circles(d)[0][1] for d in middle)
    assert a == pytest.approx((low + high) / 2, abs=0.2), "logarithmic"


def test_titles_only_on_the_wide_sheet():
    point = [Point(1, 0.5, title="person 3 & co")]
    assert "person 3 &amp; co" in "".join(dots(point, WIDE, X, Y).marks) and "<title>" not in "".join(dots(point, SLIM, X, Y).marks)


@pytest.mark.parametrize("sheet", [WIDE, SLIM])
@pytest.mark.parametrize("value", [0.0, 55.0, 100.0])
def test_the_words_of_a_mark_stay_on_the_sheet(sheet, value):
    from fedfleet.app.pages.charts.labels import width_of

    said = "64 Mbit/s: back in 120 s with 34 s of training"
    text = "".join(dots([], sheet, X, Y, mark=(value, said)).marks)
    start = float(re.findall(rf'<text x="([\d.]+)" y="[\d.]+" class="ink">{said}', text)[0])
    assert start >= 0 and start + width_of(said) <= sheet.width + 1 and 'class="ref"' in text
