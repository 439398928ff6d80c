"""The phases of stopping: forward only, bounded in time, at once when asked twice."""

from hypothesis import given
from hypothesis import strategies as st

from fedfleet.network.operations.drain import (
    Drain,
    DrainPhase,
    OpenWork,
    advance,
    gives_work,
    signal_stop,
    status_text,
    takes_reports,
)

BUSY = OpenWork(uploads=3, unsafe=2, transmitters=2)


def test_a_server_that_nobody_stops_goes_on():
    assert advance(Drain(), OpenWork(), 1e9) == Drain()
    assert gives_work(Drain()) and takes_reports(Drain()) and status_text(Drain()) == ""


def test_each_phase_waits_for_its_own_work():
    drain = signal_stop(Drain(seconds=20), 0.0)
    assert drain.phase is DrainPhase.RECEIVING and not gives_work(drain) and takes_reports(drain)
    assert advance(drain, BUSY, 1.0) is drain
    drain = advance(drain, OpenWork(0, 2, 2), 2.0)
    assert drain.phase is DrainPhase.SNAPSHOTTING and not takes_reports(drain)
    assert advance(drain, OpenWork(0, 2, 2), 2.5) is drain
    drain = advance(drain, OpenWork(0, 0, 2), 3.0)
    assert drain.phase is DrainPhase.CLOSING and advance(drain, OpenWork(0, 0, 2), 3.1) is drain
    assert advance(drain, OpenWork(), 3.2).phase is DrainPhase.CLOSED


@given(st.floats(0.1, 60), st.floats(0.01, 1.0))
def test_nothing_that_hangs_can_hold_it_up(seconds, turn):
    drain, now = signal_stop(Drain(seconds=seconds), 0.0), 0.0
    while drain.phase is not DrainPhase.CLOSED:
        now += turn
        drain = advance(drain, BUSY, now)
    assert now <= seconds + 1.0 + 3 * turn + 1e-6


def test_the_second_signal_closes_at_once():
    twice = signal_stop(signal_stop(Drain(), 0.0), 0.5)
    assert twice.hurried and twice.phase is DrainPhase.CLOSING
    assert advance(twice, BUSY, 0.5).phase is DrainPhase.CLOSED


@given(st.lists(st.sampled_from(["signal", "busy", "done"]), max_size=12))
def test_it_never_goes_back(happenings):
    drain, now = Drain(), 0.0
    for what in happenings:
        now += 1.0
        before = drain.phase
        drain = signal_stop(drain, now) if what == "signal" else advance(drain, BUSY if what == "busy" else OpenWork(), now)
        assert drain.phase >= before


def test_people_hear_what_it_is_about():
    drain = signal_stop(Drain(), 0.0)
    assert "once more" in status_text(drain)
    assert "made safe" in status_text(advance(drain, OpenWork(0, 2, 1), 1.0))
    assert "--resume" in status_text(signal_stop(drain, 1.0))
