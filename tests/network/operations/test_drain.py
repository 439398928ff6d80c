"""The phases of stopping: forward only, bounded in time, at once when asked twice."""

from hypothesis import given
from hypothesis import strategies as st

from fedfleet.network.operations.drain import (
    Drain,
    Left,
    Phase,
    advanced,
    gives_work,
    said,
    signalled,
    takes_reports,
)

BUSY = Left(uploads=3, unsafe=2, transmitters=2)


def test_a_server_that_nobody_stops_goes_on():
    assert advanced(Drain(), Left(), 1e9) == Drain()
    assert gives_work(Drain()) and takes_reports(Drain()) and said(Drain()) == ""


def test_each_phase_waits_for_its_own_work():
    drain = signalled(Drain(seconds=20), 0.0)
    assert drain.phase is Phase.RECEIVING and not gives_work(drain) and takes_reports(drain)
    assert advanced(drain, BUSY, 1.0) is drain
    drain = advanced(drain, Left(0, 2, 2), 2.0)
    assert drain.phase is Phase.SNAPSHOTTING and not takes_reports(drain)
    assert advanced(drain, Left(0, 2, 2), 2.5) is drain
    drain = advanced(drain, Left(0, 0, 2), 3.0)
    assert drain.phase is Phase.CLOSING and advanced(drain, Left(0, 0, 2), 3.1) is drain
    assert advanced(drain, Left(), 3.2).phase is Phase.CLOSED


@given(st.floats(0.1, 60), st.floats(0.01, 1.0))
def test_nothing_that_hangs_can_hold_it_up(seconds, turn):
    drain, now = signalled(Drain(seconds=seconds), 0.0), 0.0
    while drain.phase is not Phase.CLOSED:
        now += turn
        drain = advanced(drain, BUSY, now)
    assert now <= seconds + 1.0 + 3 * turn + 1e-6


def test_the_second_signal_closes_at_once():
    twice = signalled(signalled(Drain(), 0.0), 0.5)
    assert twice.hurried and twice.phase is Phase.CLOSING
    assert advanced(twice, BUSY, 0.5).phase is Phase.CLOSED


@given(st.lists(st.sampled_from(["signal", "busy", "done"]), max_size=12))
def test_it_never_goes_back(happenings):
    drain, now = Drain(), 0.0
    for what in happenings:
        now += 1.0
        before = drain.phase
        drain = signalled(drain, now) if what == "signal" else advanced(drain, BUSY if what == "busy" else Left(), now)
        assert drain.phase >= before


def test_people_hear_what_it_is_about():
    drain = signalled(Drain(), 0.0)
    assert "once more" in said(drain)
    assert "made safe" in said(advanced(drain, Left(0, 2, 1), 1.0))
    assert "--resume" in said(signalled(drain, 1.0))
