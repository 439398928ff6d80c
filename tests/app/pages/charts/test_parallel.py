"""Lines through lying axes."""

import re

from fedfleet.app.pages.charts.marks import SLIM, WIDE
from fedfleet.app.pages.charts.parallel import Rail, Thread, parallel

RAILS = [Rail("lr", 0.01, 1.0, [("0.01", 0.01), ("1", 1.0)], log=True), Rail("batch", 0, 1, [("8", 0.0), ("16", 1.0)])]


def test_a_thread_crosses_every_axis_at_its_value():
    for sheet in (WIDE, SLIM):
        drawn = parallel(RAILS, [Thread([0.1, 1.0], "line s1", "a & b"), Thread([None, 0.0])], sheet)
        paths = [re.findall(r"[ML]([\d.]+) ([\d.]+)", mark) for mark in drawn.marks if mark.startswith("<path")]
        (x, _), (end, _) = paths[0]
        assert float(x) == sheet.width / 2 and float(end) == sheet.width - 26  # the middle of a logarithmic axis, its end
        assert len(paths[1]) == 1 and drawn.width == sheet.width
    assert any("a &amp; b" in mark for mark in parallel(RAILS, [Thread([0.1, 1.0], title="a & b")], WIDE).marks)


def test_words_that_would_meet_are_left_out_and_none_leaves_the_sheet():
    crowd = [(f"value {i}", i / 30) for i in range(31)]
    drawn = parallel([Rail("many", 0.0, 1.0, crowd)], [], SLIM)
    places = [float(x) for mark in drawn.marks for x in re.findall(r'<text x="([\d.]+)"[^>]*>value', mark)]
    assert 3 <= len(places) < 10 and min(places) > 0 and max(places) < SLIM.width


def test_a_title_is_text_and_no_markup():
    marks = parallel(RAILS, [Thread([0.1, 1.0], title="<script>alert(1)</script>")], WIDE).marks
    assert not any("<script" in mark for mark in marks) and any("&lt;script" in mark for mark in marks)
