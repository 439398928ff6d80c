"""The progress bar of a run."""

import io
import sys

from fedfleet.app.terminal.progress_bar import progress
from fedfleet.core.events import ModelCommitted, RoundFailed


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


def test_a_run_that_ends_after_so_many_models_counts_models(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with progress(100, 4) as watch:
        watch([ModelCommitted(1.0, 0, 1, "a", 1), RoundFailed(2.0, 1, "late"), ModelCommitted(3.0, 2, 2, "b", 1)])
    shown = screen.getvalue()
    assert "2/4" in shown and "1 failed" in shown


def test_nobody_watches_where_there_is_no_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress(6) as watch:
        assert watch is None
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress(6, quiet=True) as watch:
        assert watch is None
    assert sys.stderr.getvalue() == ""
