"""The phases of stopping: forward only, bounded in time."""

from hypothesis import given
from hypothesis import strategies as st

from fedfleet.network.operations.drain import STATUS_TEXTS, DrainPhase, advance, start_drain


def test_each_phase_waits_until_no_frontend_is_receiving():
    drain = start_drain(20.0, 0.0)
    assert drain.phase is DrainPhase.RECEIVING and advance(drain, 3, 1.0) is drain
    drain = advance(drain, 0, 2.0)
    assert drain.phase is DrainPhase.SNAPSHOTTING and drain.until == 7.0 and advance(drain, 2, 2.5) is drain
    assert advance(drain, 0, 3.0).phase is DrainPhase.CLOSING


@given(st.floats(0.1, 60), st.floats(0.01, 1.0))
def test_nothing_that_hangs_can_hold_it_up(seconds, turn):
    drain, now = start_drain(seconds, 0.0), 0.0
    while drain.phase is not DrainPhase.CLOSING:
        now += turn
        drain = advance(drain, 3, now)
    assert now <= seconds + 2 * turn + 1e-6


@given(st.lists(st.integers(0, 2), max_size=12))
def test_it_never_goes_back(receiving):
    drain = start_drain(5.0, 0.0)
    for now, count in enumerate(receiving, start=1):
        before = drain.phase
        drain = advance(drain, count, float(now))
        assert drain.phase >= before


def test_people_hear_what_it_is_about():
    assert "send the signal again" in STATUS_TEXTS[DrainPhase.RECEIVING]
    assert "made safe" in STATUS_TEXTS[DrainPhase.SNAPSHOTTING]
    assert "--resume" in STATUS_TEXTS[DrainPhase.CLOSING]
