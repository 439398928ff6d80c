"""The law of a link: whatever is offered, no window of time carries more than rate times its length plus the credit."""

import math

from hypothesis import given
from hypothesis import strategies as st

from fedfleet.network.pool.link import CREDIT_SECONDS, Link

rates = st.floats(1e3, 1e8)
offers = st.lists(st.tuples(st.floats(0.0, 0.5), st.integers(1, 1 << 16)), min_size=1, max_size=40)


def departures(link, offers):
    """What passes when: each offer comes a pause after the one before, and no piece is offered before the last has left."""
    now, result = 0.0, []
    for pause, nbytes in offers:
        now = max(now + pause, result[-1][0] if result else 0.0)
        result.append((link.departure(nbytes, now), nbytes, now))
    return result


@given(rates, offers)
def test_no_window_carries_more_than_its_share_and_the_credit(rate, offers):
    passed = departures(Link(rate), offers)
    for i, (start, _, _) in enumerate(passed):
        total = 0
        for end, nbytes, _ in passed[i:]:
            total += nbytes
            # The window is closed at both ends. What passes at its beginning may itself have waited for its whole length.
            assert total <= rate * (end - start) + rate * CREDIT_SECONDS + passed[i][1] + 1e-6 * total


@given(rates, offers)
def test_by_any_time_no_more_has_passed_than_rate_times_time_and_the_credit(rate, offers):
    total = 0
    for time, nbytes, _ in departures(Link(rate), offers):
        total += nbytes
        assert total <= (rate * time + rate * CREDIT_SECONDS) * (1 + 1e-9)


@given(rates, offers)
def test_pieces_pass_in_order_and_never_before_they_are_offered(rate, offers):
    passed = departures(Link(rate), offers)
    assert all(time >= offered for time, _, offered in passed)
    assert [time for time, _, _ in passed] == sorted(time for time, _, _ in passed)


@given(rates, st.integers(2, 200), st.integers(1, 1 << 16))
def test_a_link_that_always_has_work_wastes_nothing(rate, pieces, nbytes):
    last, _, _ = departures(Link(rate), [(0.0, nbytes)] * pieces)[-1]
    assert math.isclose(last, max(0.0, pieces * nbytes / rate - CREDIT_SECONDS), rel_tol=1e-9, abs_tol=1e-9)


@given(rates, st.integers(2, 100), st.floats(0.0, 0.5 * CREDIT_SECONDS))
def test_timers_that_fire_late_do_not_slow_the_link(rate, pieces, lateness):
    """As long as the lateness is less than the credit: what was due meanwhile passes at once."""
    link, now = Link(rate), 0.0
    for _ in range(pieces):
        now = link.departure(link.piece, now) + lateness
    ideal = pieces * link.piece / rate
    assert now <= max(ideal, pieces * lateness if link.piece / rate < lateness else 0.0) + lateness + CREDIT_SECONDS


def test_a_link_without_a_rate_never_waits():
    link = Link(None)
    assert [link.departure(10**9, 5.0) for _ in range(3)] == [5.0] * 3


def test_pieces_are_small_beside_the_credit_but_on_very_slow_links():
    for rate in (1e5, 1e6, 1e7):
        assert Link(rate).piece <= rate * CREDIT_SECONDS / 2
    assert Link(1.0).piece > 0
