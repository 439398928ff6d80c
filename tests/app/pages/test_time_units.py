"""Time for people."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.app.pages.time_units import linear_time_ticks, log_time_ticks, plain_time


@given(st.floats(0.01, 1e6), st.floats(1.5, 1e4))
def test_a_logarithmic_axis_has_a_few_ticks_inside(low, ratio):
    result = log_time_ticks(low, low * ratio)
    assert 1 <= len(result) <= 9 and all(low <= seconds <= low * ratio for _, seconds in result)
    assert [s for _, s in result] == sorted({s for _, s in result}) and len({said for said, _ in result}) == len(result)


@given(st.floats(-1e6, 1e6), st.floats(0.1, 1e7))
def test_a_linear_axis_has_even_ticks_inside(low, length):
    result = [seconds for _, seconds in linear_time_ticks(low, low + length)]
    assert len(result) <= 12 and all(low - 1e-6 <= s <= low + length + 1e-6 for s in result)
    assert len({round(b - a, 6) for a, b in pairwise(result)}) <= 1


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(86400.0, "1 day"), (3 * 86400.0, "3 days"), (0.5, "0.5 s"), (7200.0, "2 h"), (5000.0, "1.4 h")],
)
def test_units_are_natural(seconds, said):
    assert plain_time(seconds) == said


@given(st.floats(0.5, 1e6))
def test_an_axis_mixes_no_units_where_one_of_its_ticks_has_no_natural_one(high):
    """20 s, 40 s, 60 s, 80 s: not 1 min between seconds."""
    said = [words for words, seconds in linear_time_ticks(0.0, high) if seconds]
    odd = [float(words.split()[0].replace(",", "")) * 2 for words in said]
    assert all(value == int(value) for value in odd) or len({words.split()[1] for words in said}) == 1


@pytest.mark.parametrize("high", [1e-9, 1.0, 86400.0, 1e9, 1e12, 1e18, 1e300])
def test_an_axis_has_few_ticks_however_long_it_is(high):
    assert 1 <= len(linear_time_ticks(0.0, high)) <= 8
