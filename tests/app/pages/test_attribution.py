"""The figure of where the time went."""

import re

import pytest

from fedfleet.app.pages.attribution import _COLOURS, attribution_figure
from fedfleet.measure.attribution.ledger import CAUSES, RoundTime, attributed
from fedfleet.measure.attribution.walking import attribution


def books(rounds, seconds=100.0):
    made = [
        RoundTime(i, i * seconds, (i + 1) * seconds, {"pause": 0.2 * seconds, "upload": 0.8 * seconds}, 1)
        for i in range(rounds)
    ]
    return attributed(made, {}, ended=True, cutting="none")


def boxes(text):
    """The widths and heights of all boxes, with their titles."""
    found = re.findall(r'width="([\d.]+)" height="([\d.]+)" style="[^"]+"><title>([^<]+)', text)
    return [(float(w), float(h), title) for w, h, title in found]


def test_every_cause_has_a_colour():
    assert set(_COLOURS) == set(CAUSES)
    assert len(set(_COLOURS.values())) == len(CAUSES)


def test_the_bar_and_the_columns_are_as_long_as_their_time():
    text = attribution_figure(books(5))
    run = [b for b in boxes(text) if not b[2].startswith("round")]
    assert [round(w / sum(b[0] for b in run), 2) for w, _, _ in run] == [0.2, 0.8]
    columns = [b for b in boxes(text) if b[2].startswith("round")]
    assert len(columns) == 10
    assert columns[1][1] == pytest.approx(4 * columns[0][1], rel=0.01)
    assert "upload 80 %" in text and "a column is each round" in text and "aria-label" in text


def test_many_rounds_share_columns_and_the_figure_stays_small():
    text = attribution_figure(books(5000))
    assert len(boxes(text)) == 2 + 2 * 120 and len(text) < 60_000
    assert "the mean of 41.7 rounds" in text


def test_long_rounds_are_told_in_days():
    assert ">days<" in attribution_figure(books(2, 1e6)) and ">seconds<" in attribution_figure(books(2, 100.0))


def test_a_run_is_drawn_and_nothing_is_not(tiny_run):
    text = attribution_figure(attribution(tiny_run.events))
    assert "<svg" in text and "pause" in text and "compute" in text
    assert attribution_figure(attributed([], {}, ended=False, cutting="none")) == ""
