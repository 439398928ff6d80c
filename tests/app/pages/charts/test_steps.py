"""Step lines."""

import re

import pytest

from fedfleet.app.pages.charts.labels import width_of
from fedfleet.app.pages.charts.marks import SLIM, WIDE
from fedfleet.app.pages.charts.steps import MOST, Line, Plot, axis_top, margins, steps, thin_line


def drawn(lines, sheet=WIDE, plot=None):
    return "".join(steps(lines, sheet, plot or Plot()).marks)


def test_nothing_rises_between_two_points():
    (path,) = re.findall(r'd="([^"]+)" class="line', drawn([Line("a", [0, 10, 20], [0.1, 0.5, 0.4])]))
    assert re.fullmatch(r"M[\d. ]+(H[\d.]+V[\d.]+){2}", path), "only to the right, then up or down"


def test_higher_is_higher_and_later_is_farther_right():
    text = drawn([Line("a", [0, 10], [0.2, 0.8]), Line("b", [0, 10], [0.2, 0.4], colour=2)])
    ends = [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', text)]
    assert ends[0][1] < ends[1][1] and ends[0][0] == ends[1][0]
    assert text.count('class="t1"') == text.count('class="t2"') == 1, "each label in its colour"


def test_lines_that_end_at_different_times_have_labels_above_with_leaders():
    text = drawn([Line("short", [0, 60, 600], [0, 0.5, 0.6]), Line("long", [0, 60, 864_000], [0, 0.2, 0.9], 3, thin=True)])
    assert text.count('class="leader"') == 2 and "logarithmic" in text
    assert 'class="ring s3"' in text and "line s3 thin" in text


def test_a_band_lies_under_its_line_and_covers_its_seeds():
    text = drawn([Line("a", [0, 1], [0.4, 0.5], low=[0.3, 0.4], high=[0.5, 0.9])])
    assert text.index("band a1") < text.index('class="line s1"')
    assert "100 %" in text, "the axis holds the band's top"


def test_references_shades_and_names_are_shown_and_escaped():
    plot = Plot(refs=[(0.8, "target <80 %>")], shade=(2.0, 4.0), words=["two people", "it falls"])
    text = drawn([Line("a & b", [0, 10], [0.1, 0.9])], plot=plot)
    assert "target &lt;80 %&gt;" in text and "a &amp; b" in text and 'class="aw"' in text
    assert re.search(r'class="strong halo"[^>]*>it falls', text)


@pytest.mark.parametrize("sheet", [WIDE, SLIM])
@pytest.mark.parametrize("lines", [[], [Line("a", [], [])], [Line("a", [0.0], [0.0])], [Line("a", [5.0, 5.0], [0.0, 0.0])]])
def test_nothing_and_almost_nothing_are_drawn(lines, sheet):
    made = steps(lines, sheet)
    assert "nan" not in "".join(made.marks) and "inf" not in "".join(made.marks) and made.height > 0


def test_long_lines_are_thinned_but_keep_their_ends():
    n = 50_000
    few = thin_line(Line("a", list(range(n)), [i / n for i in range(n)], low=[0.0] * n, high=[1.0] * n))
    assert len(few.x) == len(few.low) == MOST and few.x[0] == 0 and few.x[-1] == n - 1
    assert len(drawn([few])) < 60_000


def test_whoever_draws_below_knows_the_room_beside_the_plot():
    line = Line("a", [0, 10], [0.1, 0.9])
    left, right = margins([line], WIDE, Plot())
    first = float(re.findall(r'd="M([\d.]+)', drawn([line]))[0])
    end = float(re.findall(r'<circle cx="([\d.]+)"', drawn([line]))[0])
    assert first == pytest.approx(left, abs=0.1) and end == pytest.approx(WIDE.width - right, abs=0.1)


def test_plain_numbers_have_no_per_cent():
    text = drawn([Line("seconds", [0, 10], [30.0, 240.0])], plot=Plot(shares=False))
    assert "%" not in text and "200" in text


def test_a_name_is_text_and_no_markup():
    assert "<script" not in drawn([Line("<script>alert(1)</script> & co", [0, 10], [0.1, 0.5])])


@pytest.mark.parametrize("sheet", [WIDE, SLIM])
def test_a_label_that_is_wider_than_the_room_beside_its_line_stands_on_the_sheet(sheet):
    (result,) = re.findall(
        r'<text x="([\d.]+)"[^>]*class="t1[^"]*"([^>]*)>([^<]+)', drawn([Line("m" * 22, [0, 9], [0.2, 0.5])], sheet)
    )
    wide = width_of(result[2], strong=True)
    end = float(result[0]) if "end" in result[1] else float(result[0]) + wide
    assert end - wide >= -1 and end <= sheet.width + 1


def test_a_reference_above_all_lines_is_on_the_axis_and_charts_can_share_their_roof():
    low, high, target = Line("a", [0, 9], [0.1, 0.2]), Line("b", [0, 9], [0.1, 0.7]), Plot(refs=[(0.9, "target")])
    assert axis_top([low], Plot()) < axis_top([low, high], Plot()) < axis_top([low], target) == 1.0
