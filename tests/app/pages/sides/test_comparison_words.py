"""Figures in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.app.pages.html import tight
from fedfleet.app.pages.sides.comparison_words import capital, count, points, spread, time, times


@given(st.floats(0, 1))
def test_a_share_is_never_said_to_be_all_unless_it_is(share):
    assert (points(share) == "100 %") == (share == 1) and (points(share) == "0 %") == (share == 0)
    figure = float(points(share).split()[-2])
    assert figure == pytest.approx(100 * share, abs=1.01 if points(share).startswith(("over", "under")) else 0.51)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_a_spread_names_both_ends_or_one(shares):
    said = spread(shares)
    assert said.endswith(points(max(shares)))
    assert (" to " in said) == (points(min(shares)) != points(max(shares)))


def test_times_share_a_unit_where_they_can():
    assert times([7200.0, 10_800.0]) == "2 to 3 h" and times([60.0, 60.0]) == time(60.0)


def test_numbers_stay_with_their_units_and_nothing_else_changes():
    assert tight("94 % in 3.9 h, 2 of 3 seeds, 5 days") == "94\u00a0% in 3.9\u00a0h, 2 of 3 seeds, 5\u00a0days"
    assert tight("10 hares") == "10 hares"


def test_counting_and_capitals():
    assert (
        count(0, "run") == "no runs" and count(2, "person", "people") == "two people" and count(13, "run") == "13 runs"
    )
    assert capital("") == "" and capital("a b") == "A b"
