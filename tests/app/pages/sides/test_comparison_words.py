"""Figures in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.app.pages.html import bind_units
from fedfleet.app.pages.sides.comparison_words import (
    capitalise,
    count_words,
    share_range,
    time_range,
    time_text,
    whole_percent,
)


@given(st.floats(0, 1))
def test_a_share_is_never_said_to_be_all_unless_it_is(share):
    assert (whole_percent(share) == "100 %") == (share == 1) and (whole_percent(share) == "0 %") == (share == 0)
    figure = float(whole_percent(share).split()[-2])
    assert figure == pytest.approx(100 * share, abs=1.01 if whole_percent(share).startswith(("over", "under")) else 0.51)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_a_spread_names_both_ends_or_one(shares):
    said = share_range(shares)
    assert said.endswith(whole_percent(max(shares)))
    assert (" to " in said) == (whole_percent(min(shares)) != whole_percent(max(shares)))


def test_times_share_a_unit_where_they_can():
    assert time_range([7200.0, 10_800.0]) == "2 to 3 h" and time_range([60.0, 60.0]) == time_text(60.0)


def test_numbers_stay_with_their_units_and_nothing_else_changes():
    assert bind_units("94 % in 3.9 h, 2 of 3 seeds, 5 days") == "94\u00a0% in 3.9\u00a0h, 2 of 3 seeds, 5\u00a0days"
    assert bind_units("10 hares") == "10 hares"


def test_counting_and_capitals():
    assert (
        count_words(0, "run") == "no runs"
        and count_words(2, "person", "people") == "two people"
        and count_words(13, "run") == "13 runs"
    )
    assert capitalise("") == "" and capitalise("a b") == "A b"
