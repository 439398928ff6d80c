"""Standing columns as small multiples."""

from __future__ import annotations

import re

import pytest

from fedfleet.app.pages.charts.column_chart import MOST, Column, Group, Panel, columns, histogram, rank_edges
from fedfleet.app.pages.charts.marks import HALF, SLIM, WIDE


def heights(text, kind):
    return [float(h) for h in re.findall(rf'height="([\d.]+)" class="{kind}"', text)]


def drawn(panels, sheet=WIDE, **more):
    return "".join(columns(panels, sheet, **more).marks)


def test_panels_share_one_scale():
    small, large = (Panel([Column(v)] * 20, colour=c) for v, c in ((10, 1), (40, 3)))
    text = drawn([small, large], across=2)
    assert heights(text, "a3")[0] == pytest.approx(4 * heights(text, "a1")[0], abs=0.3)


def test_what_came_to_nothing_is_hatched_above_what_counted():
    text = drawn([Panel([Column(3, 1, "person <1>")])], across=1)
    (full,), (late,) = heights(text, "a1"), heights(text, "late-area")
    assert full == pytest.approx(3 * late, abs=0.3) and "person &lt;1&gt;" in text


def test_those_left_out_are_drawn_under_the_axis():
    text = drawn([Panel([Column(5)] * 50 + [Column(0)] * 50, people=100, late=20, never=30)])
    strips = re.findall(r'width="([\d.]+)" height="5.0" class="([\w-]+)"', text)
    assert [kind for _, kind in strips] == ["late-area", "a6"]
    assert float(strips[1][0]) == pytest.approx(1.5 * float(strips[0][0]), abs=0.2)


def test_thin_columns_are_one_shape_of_the_same_height():
    text = drawn([Panel([Column(40 - i % 3, 2) for i in range(400)])], SLIM, across=1)
    assert text.count("<rect") == 0 and text.count("<path") == 2


def test_groups_that_do_not_fit_beside_each_other_stand_in_rows():
    groups = [
        Group(0, 1, "1 took part", "used 3 times"),
        Group(1, 1, "1 asked in vain", "7 times"),
        Group(2, 98, "98 never asked"),
    ]
    one = columns([Panel([Column(1)] * 100, groups=groups)], SLIM, across=1)
    few = columns([Panel([Column(1)] * 100, groups=groups[:1])], SLIM, across=1)
    assert one.height > few.height + 30
    rows = set(re.findall(r'y="([\d.]+)" class="strong"', "".join(one.marks)))
    assert len(rows) == 3


def test_words_references_and_emptiness():
    text = drawn([Panel([Column(1)] * 5, "mild", 2, captions=("all took part", "really"))], ref=(4, "fair share: 4"))
    assert 'class="t2"' in text and "fair share: 4" in text and text.count("really") == 1
    assert "nan" not in drawn([]) and "nan" not in drawn([Panel([])])


def test_a_large_fleet_shares_columns():
    assert rank_edges(10).tolist() == list(range(11)) and len(rank_edges(10**6)) == MOST + 1 and rank_edges(10**6)[-1] == 10**6


def test_columns_are_as_high_as_their_counts_which_stand_on_top():
    text = "".join(histogram([2, 0, 8], HALF, ["0 %", "", "100 %"], kinds=["a3", "a6", "a6"], label="right").marks)
    heights = [float(h) for h in re.findall(r'height="([\d.]+)"', text)]
    assert heights[0] == pytest.approx(heights[2] / 4) and heights[1] == 0
    assert ">2<" in text and ">8<" in text and ">0<" not in text and ">right<" in text


def test_numbers_that_would_meet_are_left_out():
    text = "".join(histogram([10_000] * 60, SLIM, []).marks)
    assert 0 < text.count(">10,000<") < 15
    assert "nan" not in "".join(histogram([], SLIM, []).marks)


def test_a_count_lies_over_no_higher_column_beside_it():
    text = "".join(histogram([12_345, 54_321, 12_346, 0, 0, 0, 7] + [0] * 40, SLIM, []).marks)
    assert "54,321" in text and "12,345" not in text and "12,346" not in text and ">7<" in text
