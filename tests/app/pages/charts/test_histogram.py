"""Counted columns."""

import re

import pytest

from fedfleet.app.pages.charts.histogram import histogram
from fedfleet.app.pages.charts.marks import HALF, SLIM


def test_columns_are_as_high_as_their_counts_which_stand_on_top():
    text = "".join(histogram([2, 0, 8], HALF, ["0 %", "", "100 %"], kinds=["a3", "a6", "a6"], label="right").marks)
    heights = [float(h) for h in re.findall(r'height="([\d.]+)"', text)]
    assert heights[0] == pytest.approx(heights[2] / 4) and heights[1] == 0
    assert ">2<" in text and ">8<" in text and ">0<" not in text and ">right<" in text


def test_numbers_that_would_meet_are_left_out():
    text = "".join(histogram([10_000] * 60, SLIM, []).marks)
    assert 0 < text.count(">10,000<") < 15
    assert "nan" not in "".join(histogram([], SLIM, []).marks)
