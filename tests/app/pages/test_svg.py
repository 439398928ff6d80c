"""Charts as SVG: marks where the data are."""

import re
from itertools import pairwise

import pytest

from fedfleet.app.pages.svg import HEIGHT, WIDTH, Axis, Bar, Series, bar_chart, line_chart, ticks, time_chart, timeline


def test_an_axis_maps_its_limits_to_its_ends():
    x = Axis(10, 20, 100, 300)
    assert (x(10), x(20), x(15)) == (100, 300, 200)
    assert Axis(5, 5, 0, 9)(5) == 0, "nothing is divided by zero"


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 97.3), (3, 3.5), (0, 1e6)])
def test_ticks_are_even_and_within_limits(low, high):
    found = ticks(low, high)
    assert low <= found[0] and found[-1] <= high and 3 <= len(found) <= 11
    assert len({round(b - a, 9) for a, b in pairwise(found)}) == 1


def points(text):
    return [[tuple(map(float, p.split(","))) for p in line.split()] for line in re.findall(r'points="([^"]+)"', text)]


def test_lines_run_through_their_points():
    text = line_chart(
        [Series("a", [0, 1, 2], [0.0, 0.5, 1.0], "red"), Series("b", [0, 2], [1.0, 0.0], "blue", True)], "x", "y"
    )
    first, second = points(text)
    assert first[0][0] < first[1][0] < first[2][0] <= WIDTH and first[0][1] > first[1][1] > first[2][1] >= 0
    assert first[0] == (second[0][0], second[1][1]) and text.count("stroke-dasharray") == 1
    assert "<title>a</title>" in text and ">b</span>" in text


def test_time_is_logarithmic_when_lines_end_far_apart():
    near = [Series("a", [0, 3600], [0, 1], "red"), Series("b", [0, 7200], [0, 1], "blue")]
    far = [Series("a", [0, 60, 600], [0, 0.5, 1], "red"), Series("b", [0, 86400, 864000], [0, 0.5, 1], "blue")]
    assert "virtual minutes" in time_chart(near, "accuracy")
    assert "logarithmic" in time_chart(far, "accuracy") and "10 days" in time_chart(far, "accuracy")


def test_every_bar_can_be_hovered_over_even_a_zero():
    text = bar_chart([3, 0], "x", "y", ["red", "blue"], ["three", "<none>"])
    heights = [float(h) for h in re.findall(r'height="([\d.]+)" fill', text)]
    assert heights[0] > heights[1] > 0
    assert "<title>three</title>" in text and "<title>&lt;none&gt;</title>" in text


def test_a_timeline_has_a_row_per_name_and_a_mark_per_decision():
    bars = [Bar(0, 0.0, 5.0, "folded", "first"), Bar(1, 2.0, 9.0, "dropped", "second")]
    text = timeline(bars, ["3", "8"], [(5.0, "round 1")], {"folded": "red", "dropped": "blue", "lost": "grey"})
    assert text.count('class="mark"') == 1 and text.count('rx="2"') == 2
    assert ">folded</span>" in text and "lost" not in text, "the legend names what is drawn"


def test_charts_without_data_are_drawn_empty():
    for text in (line_chart([Series("a", [], [], "red")], "x", "y"), bar_chart([], "x", "y", [], [])):
        assert f'viewBox="0 0 {WIDTH} {HEIGHT}"' in text and "nan" not in text


def test_numbers_of_an_axis_stay_in_the_picture():
    text = bar_chart([1.0] * 500, "x", "y", ["red"] * 500, ["a"] * 500, over=1_000_000)
    assert f'<text x="{WIDTH - 1.0}" y="252" class="tick" text-anchor="end">1,000,000</text>' in text
    assert text.count('text-anchor="end">1,000,000') == 1 and 'text-anchor="middle">200,000<' in text
    assert 'text-anchor="middle">3<' in bar_chart([1.0] * 3, "x", "y", ["red"] * 3, ["a"] * 3)
