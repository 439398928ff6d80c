"""Numbers as clients say them: the examples of the functions, and laws."""

from hypothesis import given
from hypothesis import strategies as st

from fedfleet.app.pages.report.number_words import ROUND_SECONDS, duration, next_round_time, per_cent


@given(st.floats(0, 1))
def test_all_and_nothing_are_said_only_of_all_and_nothing(share):
    said = per_cent(share)
    assert (said == "100 %") == (share == 1.0) and (said == "0 %") == (share == 0.0)


@given(st.floats(0.1, 604_800))
def test_a_round_time_is_the_next_one(seconds):
    result = next_round_time(seconds)
    assert result is not None and result >= seconds and all(r < seconds for r in ROUND_SECONDS if r < result)


def test_deadlines_are_said_in_seconds():
    assert duration(120.0) == "120 s" and duration(301.0) == "5 min" and duration(0.5) == "0.5 s"
