"""The live line, on a terminal and off it."""

import io
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fedfleet.network.operations.live_line import QUIET_SECONDS, LiveLine, duration_text, line_of
from fedfleet.network.operations.metrics import Figures

BEGUN = Figures("demo", devices_online=2, declared=5, waiting_for="devices: 2 of 5 are here")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_line_says_who_is_there_and_whom_it_waits_for():
    assert line_of(BEGUN) == "2 of 5 devices | round 0 | 0 s | waiting for devices: 2 of 5 are here"
    busy = replace(BEGUN, round=3, version=3, running=2, arrived=4, lost=1, failed_rounds=2, accuracy=0.5)
    assert "round 3 | 4 of 6 reports, 1 lost | model 3, accuracy 0.500 | 2 failed" in line_of(busy)
    assert "waiting for" not in line_of(replace(BEGUN, draining=True, waiting_for="stopping"))


@given(st.text(max_size=300))
def test_it_stays_one_line_whatever_it_waits_for(text):
    told = line_of(replace(BEGUN, waiting_for=text))
    assert told.isprintable() and len(told) < 260


@given(st.floats(0, 1e8))
def test_time_is_short(seconds):
    assert len(duration_text(seconds)) < 14


def test_without_a_terminal_it_speaks_when_something_happened():
    out = io.StringIO()
    line = LiveLine(out)
    for i in range(100):
        line.show(replace(BEGUN, run_seconds=i / 2), i / 2)
    assert out.getvalue().count("\n") == 1
    line.show(replace(BEGUN, round=1, running=3), 51.0)
    line.show(replace(BEGUN, round=1, running=2, arrived=1, waiting_for="client 1"), 52.0)
    assert out.getvalue().count("\n") == 2
    line.show(replace(BEGUN, round=1, running=2, arrived=1), 51.0 + QUIET_SECONDS)
    assert out.getvalue().count("\n") == 3
    line.close()
    line.show(replace(BEGUN, round=9), 999.0)
    assert out.getvalue().count("\n") == 3, "it speaks after it was closed"


def test_on_a_terminal_it_shows_one_line_and_takes_it_away(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    line = LiveLine(out)
    line.show(BEGUN, 0.0)
    line._live.refresh()
    line.close()
    assert "2 of 5 devices" in out.getvalue() and out.getvalue().rstrip().endswith(
        ("\x1b[2K", "\x1b[?25h", "\x1b[1A\x1b[2K")
    )


def test_quiet_is_quiet():
    out = Terminal()
    line = LiveLine(out, quiet=True)
    line.show(BEGUN, 0.0)
    line.close()
    assert out.getvalue() == ""
