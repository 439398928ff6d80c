"""The figure of where the time went."""

import re

import pytest

from fedfleet.app.pages.time_chart import (
    FAMILIES,
    SIDE_FAMILIES,
    attribution_figure,
    by_family,
    cost_section,
    device_work,
    family_key,
    family_shares,
    mean_family_shares,
    run_bar,
    time_section,
    time_sentence,
)
from fedfleet.measure.attribution.causes import CAUSES, RoundTime, total_attribution
from fedfleet.measure.attribution.critical_path import attribution
from tests.app.pages.sides.looks import made, side


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


def test_every_cause_has_one_family():
    every = [cause for _, _, causes in SIDE_FAMILIES for cause in causes]
    assert sorted(every) == sorted(CAUSES)


def test_shares_add_up_to_one():
    result = family_shares(made(causes=dict.fromkeys(CAUSES, 2.0)))
    assert sum(result.values()) == pytest.approx(1.0)
    assert family_shares(made(causes={})) == {}


def test_seeds_weigh_alike_however_long_they_took():
    quick, slow = made(causes={"compute": 1.0}), made(causes={"reachability": 1000.0})
    result = mean_family_shares(side("a", quick, slow))
    assert result["training"] == result["waiting for clients out of reach"] == 0.5


def test_the_sentence_groups_those_that_agree():
    told = [
        ("a", {"training": 0.6, "other": 0.4}),
        ("b", {"training": 0.8, "other": 0.2}),
        ("c", {"training": 0.1, "other": 0.9}),
    ]
    said = time_sentence(told)
    assert "training with 'a', 'b' (60 to 80 %)" in said and "other with 'c' (90 %)" in said


def test_work_that_entered_no_model_is_apart():
    assert device_work(made().metrics) == (7200.0, 3600.0, 5e8)
    page = cost_section([side("a")])
    assert "2 h used, 1 h wasted with 500.0 MB" in page
    assert cost_section([side("a", made(metrics={"fates": {}}))]) == ""


def test_the_figure_names_only_what_is_there():
    page = time_section([side("a")])
    assert "training" in page and "out of reach" not in page
    assert time_section([side("a", made(causes={}))]) == ""


def test_names_are_escaped_in_the_sentence_too():
    assert "<i>" not in time_section([side("<i> & you")]) and "&lt;i&gt; &amp; you&#x27; (" in time_section([side("<i> & you")])
