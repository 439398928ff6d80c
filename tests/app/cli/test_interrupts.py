"""Ctrl-C at any import of the command: it ends at once, with 130 and at most one line."""

import signal
import subprocess
import sys
import time

import pytest

from tests.app.specs import written

# The command as its script calls it, in a process that gets an interrupt at its n-th import.
COMMAND = """
import os, signal, sys
left = int(sys.argv[1])
signal.signal(signal.SIGINT, signal.default_int_handler)
from fedfleet.__main__ import main
def count(event, _):
    global left
    if event == "import":
        left -= 1
        if left == 0:
            signal.raise_signal(signal.SIGINT)
sys.addaudithook(count)
sys.argv = ["fedfleet", *sys.argv[2:]]
main()
"""


def interrupted(at, *words, cwd):
    """What the command answers to an interrupt at its import number `at`."""
    return subprocess.run([sys.executable, "-c", COMMAND, str(at), *words], cwd=cwd, capture_output=True, text=True, timeout=120)


def ended_in_one_line(done):
    assert done.returncode == 130, (done.returncode, done.stderr[-2000:])
    assert done.stdout == "" and done.stderr in ("", "fedfleet: interrupted\n"), done.stderr[-2000:]


@pytest.mark.parametrize("at", [1, 2, 40, 120])
def test_an_interrupt_while_modules_are_loaded_is_one_line(tmp_path, at):
    ended_in_one_line(interrupted(at, "version", cwd=tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("at", [300, 500, 700, 1000])
def test_an_interrupt_while_pytorch_is_loaded_is_one_line(tmp_path, at):
    ended_in_one_line(interrupted(at, "run", str(written(tmp_path)), "--check", cwd=tmp_path))


def test_without_an_interrupt_nothing_changes(tmp_path):
    done = interrupted(-1, "version", "--json", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ""


@pytest.mark.soak
@pytest.mark.parametrize("delay", [0.15, 0.3, 0.5, 0.8, 1.2, 1.8, 2.5])
def test_an_interrupt_at_any_time_after_the_start_is_one_line(tmp_path, delay):
    words = [sys.executable, "-m", "fedfleet", "run", str(written(tmp_path)), "stop.rounds=1000000", "--out", "out"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    # A shell shows 130 for a process that an interrupt ended, too: so Python ends where C code had called it when it came.
    assert process.returncode in (130, -signal.SIGINT) and out == "" and "Traceback" not in err, (process.returncode, err[-2000:])
