"""Lying bars."""

import re

import pytest

from fedfleet.app.pages.charts.bars import Bar, Part, bars
from fedfleet.app.pages.charts.marks import SLIM, WIDE


def widths(drawing):
    return [float(w) for w in re.findall(r'<rect x="[\d.]+" y="[\d.]+" width="([\d.]+)"', "".join(drawing.marks))]


def test_bars_share_one_scale():
    made = bars([Bar("a", [Part(100, "a1")], "100"), Bar("b", [Part(25, "late-area")], "25")], WIDE)
    long, short = widths(made)
    assert short / long == pytest.approx(0.25, abs=0.01) and long < WIDE.width


def test_parts_follow_each_other_and_say_their_share_where_there_is_room():
    made = bars(
        [Bar("run", [Part(0.9, "a4", "90 %"), Part(0.1, "a5", "ten per cent, said at great length")], "3 h")],
        SLIM,
        most=1.0,
    )
    text = "".join(made.marks)
    first, second = (float(x) for x in re.findall(r'<rect x="([\d.]+)"', text))
    assert second == pytest.approx(first + widths(made)[0], abs=1.0)
    assert ">90 %<" in text and "great length" not in text


def test_notes_stand_at_the_right_and_below_on_phones():
    row = [Bar("a <b>", [Part(1, "a1", title="t")], "1", "what helps")]
    wide, slim = bars(row, WIDE), bars(row, SLIM)
    assert 'text-anchor="end">what helps' in "".join(wide.marks) and ">what helps" in "".join(slim.marks)
    assert slim.height > wide.height and "<title>" not in "".join(slim.marks) and "a &lt;b&gt;" in "".join(slim.marks)


def test_names_stand_beside_on_wide_sheets_only():
    rows = [Bar("mild, waiting", [Part(1, "a1")], "1", colour=1), Bar("severe", [Part(2, "a3")], "2", colour=3)]
    beside, above = bars(rows, WIDE, names_left=True), bars(rows, SLIM, names_left=True)
    assert beside.height < above.height and 'class="t3"' in "".join(beside.marks)


@pytest.mark.parametrize("rows", [[], [Bar("none", [Part(0, "a1")], "0")], [Bar("empty", [])]])
def test_nothing_is_drawn_without_harm(rows):
    made = bars(rows, WIDE)
    assert made.height > 0 and "nan" not in "".join(made.marks) and not widths(made)
