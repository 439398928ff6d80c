"""The page that explains a run."""

import re

from fedfleet.app.pages.charts.marks import WIDE
from fedfleet.app.pages.explanation_page import Step, explain_page, waterfall
from fedfleet.app.pages.html import bind_units
from fedfleet.app.pages.time_units import linear_time_ticks
from fedfleet.app.runs.counterfactuals import Outcome, build_answer

FOUND = build_answer(
    ("links", "data"),
    {
        frozenset(): Outcome(100.0, None, 0.5),
        frozenset({"links"}): Outcome(40.0, 30.0, 0.4),
        frozenset({"data"}): Outcome(60.0, None, 0.6),
        frozenset({"links", "data"}): Outcome(50.0, 10.0, 0.9),
    },
    0.7,
)


def bars(text):
    return [(float(x), float(w)) for x, w in re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', text)]


def test_each_bar_of_a_waterfall_begins_where_the_one_above_ends():
    steps = [
        Step("a", 0, 10, "10", "a6"),
        Step("b", 10, 4, "-6", "a4"),
        Step("c", 4, 5, "+1", "a2"),
        Step("d", 0, 5, "5", "a6"),
    ]
    text = "".join(waterfall(steps, WIDE, lambda high: linear_time_ticks(0, high)).marks)
    (a, wide), (b, down), (c, up), (d, last) = bars(text)
    assert a == d and abs(b + down - (a + wide)) < 0.2  # the whole, and what is taken from its end
    assert abs(c - b) < 0.2 and abs(c + up - (d + last)) < 0.2
    assert abs(wide / last - 2.0) < 0.01


def test_the_page_shows_sentence_pictures_and_what_was_censored():
    text = explain_page("", FOUND, "mine & yours")
    assert "mine &amp; yours" in text and bind_units(FOUND["sentence"]) in text
    assert text.count('role="img"') == 4, "both pictures in both drawings"
    assert "over 1.7 min" in text and bind_units("not within 1.7 min") in text
    assert bind_units("counts with 1.7 min, the longest of these runs") in text
    assert "without unequal links: -80 s" in text and "What its time went into" not in text
    assert "nothing (as it was)" in text


def test_attribution_and_counterfactuals_share_the_page_and_either_may_be_missing():
    text = explain_page("<figure>where it went</figure>", FOUND)
    assert "where it went" in text and 'role="img"' in text
    assert 'role="img"' not in explain_page("<figure>where it went</figure>", {})
    nothing = build_answer((), {frozenset(): Outcome(10.0, 5.0, 0.9)}, 0.8)
    assert 'role="img"' not in explain_page("", nothing) and "Nothing can be removed" in explain_page("", nothing)
