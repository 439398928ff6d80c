"""Asking again, and rounds that came to nothing."""

from fedfleet.core.events import RoundFailed
from fedfleet.measure.round_outcomes import abandoned_rounds, rebroadcasts
from tests.measure.journals import LOG, sent


def test_every_ask_beyond_the_first_of_a_round_is_one_again():
    assert rebroadcasts(LOG) == 0
    assert rebroadcasts([*LOG, sent(160.0, 4, 3, 8, 0), sent(170.0, 4, 3, 9, 1), sent(180.0, 4, 3, 10, 2)]) == 2


def test_a_round_is_abandoned_if_it_failed_after_someone_was_asked():
    assert abandoned_rounds(LOG) == 1
    assert abandoned_rounds([*LOG, RoundFailed(160.0, 4, "nobody there")]) == 1
    assert abandoned_rounds([*LOG, sent(155.0, 4, 3, 8, 0), RoundFailed(160.0, 4, "too late")]) == 2
