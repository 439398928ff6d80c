"""The figure of where the time went."""

import re

import pytest

from fedfleet.app.pages.time_chart import FAMILIES, attribution_figure, by_family, family_key, run_bar
from fedfleet.measure.attribution.causes import CAUSES, RoundTime, total_attribution
from fedfleet.measure.attribution.critical_path import attribution


def books(rounds, seconds=100.0):
    made = [
        RoundTime(i, i * seconds, (i + 1) * seconds, {"pause": 0.2 * seconds, "upload": 0.8 * seconds}, 1) for i in range(rounds)
    ]
    return total_attribution(made, {}, ended=True, cutting="none")


def boxes(text):
    """The widths and heights of all boxes of the wide drawing, with their titles."""
    result = re.findall(r'width="([\d.]+)" height="([\d.]+)" class="[^"]+"><title>([^<]+)', text)
    return [(float(w), float(h), title) for w, h, title in result]


def test_every_cause_belongs_to_one_family_with_a_paint_of_its_own():
    assert sorted(c for _, those, _ in FAMILIES for c in those) == sorted(CAUSES)
    assert len({kind for _, _, kind in FAMILIES}) == len(FAMILIES)


def test_families_add_up():
    result = books(7)
    assert sum(by_family(result.causes).values()) == pytest.approx(result.virtual_seconds)
    bar = run_bar("run", result, colour=2)
    assert sum(p.value for p in bar.parts) == pytest.approx(1.0) and [p.label for p in bar.parts] == ["80 %", "20 %"]
    assert family_key([result]).count("<li>") == 2


def test_the_bar_and_the_columns_are_as_long_as_their_time():
    text = attribution_figure(books(5))
    run = [b for b in boxes(text) if not b[2].startswith("round")]
    assert [round(w / sum(b[0] for b in run), 2) for w, _, _ in run] == [0.8, 0.2]
    columns = [b for b in boxes(text) if b[2].startswith("round")]
    assert len(columns) == 10 and columns[0][1] == pytest.approx(4 * columns[1][1], rel=0.02)
    assert "moving the model" in text and "a column is each round" in text and text.count("aria-label") == 2


def test_many_rounds_share_columns_and_the_figure_stays_small():
    text = attribution_figure(books(5000))
    assert len(boxes(text)) == 2 + 2 * 120 and len(text) < 90_000
    assert "the mean of 41.7 rounds" in text


def test_long_rounds_are_told_in_days():
    assert "days<" in attribution_figure(books(2, 1e6)) and " s<" in attribution_figure(books(2, 30.0))


def test_a_run_is_drawn_and_nothing_is_not(tiny_run):
    text = attribution_figure(attribution(tiny_run.events))
    assert "<svg" in text and "pause between rounds" in text and "training" in text
    assert attribution_figure(total_attribution([], {}, ended=False, cutting="none")) == ""
