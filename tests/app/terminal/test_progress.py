"""The progress bar of a run."""

import io
import sys

from fedfleet.app.terminal.progress import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_sees_rounds_and_accuracy(tiny_run, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with progress(6, label="tiny") as watch:
        watch(tiny_run.events)
    shown = screen.getvalue()
    assert "tiny" in shown and "6/6" in shown and "accuracy" in shown


def test_nobody_watches_where_there_is_no_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress(6) as watch:
        assert watch is None
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress(6, quiet=True) as watch:
        assert watch is None
    assert sys.stderr.getvalue() == ""
