"""The command line, called in this process."""

import sys

import pytest

from fedfleet.app import cli


@pytest.fixture
def fedfleet(monkeypatch, capsys):
    """Call the command: (exit code, standard output, standard error)."""

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["fedfleet", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        return ended.value.code, printed.out, printed.err

    return call
