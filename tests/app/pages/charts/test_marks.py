"""Sheets, marks and figures."""

from fedfleet.app.pages.charts.marks import (
    HALF,
    SLIM,
    WIDE,
    Drawing,
    box,
    dot,
    figure,
    line,
    paint_legend,
    side_by_side,
    stack_below,
    switch,
    text,
)


def test_a_figure_has_both_drawings_and_says_its_finding_in_each():
    def chart(sheet):
        return Drawing(sheet.width, 50, [box(0, 0, 5, 5, "a1")])

    made = figure("Title <1>", "how & why", chart, 'it "rises"', note="<n>")
    assert made.count("<svg") == made.count('aria-label="it &quot;rises&quot;"') == made.count('role="img"') == 2
    assert f'viewBox="0 0 {WIDE.width} 50"' in made and f'viewBox="0 0 {SLIM.width} 50"' in made
    assert f'viewBox="0 0 {HALF.width} 50"' in figure("t", "", chart, "f", sheet=HALF)
    assert "Title &lt;1&gt;" in made and "how &amp; why" in made and "&lt;n&gt;" in made


def test_marks_are_escaped_and_empty_words_are_nothing():
    assert text(0, 0, "") == "" and "&lt;" in text(0, 0, "<", "ink", "end")
    assert "<title>a &amp; b</title>" in box(0, 0, 1, 1, "a1", "a & b") and "<title>" not in dot(0, 0, 1, "a1")
    assert 'width="0.0"' in box(0, 0, -3, 1, "a1"), "a length is never negative"
    assert 'class="ref"' in line(0, 0, 1, 1, "ref")


def test_drawings_can_stand_under_and_beside_each_other():
    a, b = Drawing(100, 30, ["A"]), Drawing(80, 50, ["B"])
    under, beside = stack_below(a, b, gap=10), side_by_side(a, b, gap=10)
    assert (under.width, under.height) == (100, 90) and "translate(0 40.0)" in "".join(under.marks)
    assert (beside.width, beside.height) == (190, 50) and "translate(110.0 0)" in "".join(beside.marks)


def test_a_switch_shows_one_picture_and_needs_no_script():
    made = switch("x", [("a", "<p>1</p>"), ("<b>", "<p>2</p>")])
    assert made.count(" checked") == 1 and made.count('type="radio"') == 2 and "&lt;b&gt;" in made
    assert 'for="x-2"' in made and 'id="x-2"' in made and "<script" not in made


def test_a_key_paints_as_the_boxes_do():
    made = paint_legend([("late", "late-area"), ("train", "a5"), ("unknown", "a6 pale")])
    assert '<i class="late">' in made and '<i class="b5">' in made and '<i class="b6 pale">' in made
