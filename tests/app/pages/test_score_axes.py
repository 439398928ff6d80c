"""Axes begin where scores of their kind begin, and hold what diverges at their edge."""

import math
import re

import pytest

from fedfleet.app.pages.charts.marks import WIDE
from fedfleet.app.pages.charts.steps import Line, steps
from fedfleet.app.pages.score_axes import measure_plot, score_limits, score_marks, score_plot
from fedfleet.core.kinds import KINDS
from fedfleet.measure.measure_info import measure_info
from fedfleet.measure.score_info import ScoreInfo

R2 = ScoreInfo(KINDS["regression"])


@pytest.mark.parametrize(("values", "low"), [([0.2], 0.0), ([-0.1], -0.25), ([-1e9, 0.5], -1.0), ([math.nan], 0.0), ([], 0.0)])
def test_r2_begins_where_it_began_and_not_at_minus_a_million(values, low):
    assert score_limits(R2, values) == (low, 1.0) and score_plot(R2, values).low == low


def test_percentages_are_as_they_were():
    assert score_limits(ScoreInfo(), [0.3]) == (0.0, 1.0) and score_plot(ScoreInfo(), [0.3]).shares
    assert score_marks(ScoreInfo(), 0.0, 1.0)[-1] == ("100 %", 1.0) and "%" not in str(score_marks(R2, -0.25, 1.0))


def test_an_error_that_diverges_leaves_the_rest_to_be_seen():
    info = measure_info("rmse", R2)
    assert measure_plot(info, [60.0, 58.0, 55.0, 1e9]).top <= 200 and measure_plot(info, [60.0, 58.0]).top >= 60.0
    assert measure_plot(measure_info("f1_macro", R2), [0.5]).shares and not measure_plot(info, []).shares


def test_lines_stay_inside_of_their_axis():
    plot = score_plot(R2, [-5.0, 0.5])
    drawing = steps([Line("R2", [0.0, 60.0, 120.0], [-5.0, 0.2, 0.5])], WIDE, plot)
    ends = [float(y) for mark in drawing.marks for y in re.findall(r"V([-\d.]+)", mark)]
    assert ends and all(0 <= y <= drawing.height for y in ends)
