"""The controller signals only what changes, by handles, and freezing is stronger than a budget."""

import os
import signal
import subprocess
import sys
import time

import pytest

from fedfleet.network.pool.cpu_controller import Controller
from fedfleet.network.pool.processes import cpu_clock


class Signals:
    """Records signals instead of sending them."""

    def __init__(self):
        self.sent = []
        self.used = 0.0

    def send(self, handle, number):
        self.sent.append(signal.Signals(number).name)


@pytest.fixture
def sleeper():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def signals():
    return Signals()


@pytest.fixture
def controller(signals):
    return Controller(signals.send, lambda pid: signals.used)


def test_a_process_that_has_used_its_budget_is_stopped_and_goes_on_later(controller, signals, sleeper):
    controller.command({"device": 0, "pid": sleeper.pid, "share": 0.5}, 0.0)
    controller.tick(0.01)
    assert signals.sent == []
    signals.used = 0.1
    controller.tick(0.02)
    controller.tick(0.03)
    assert signals.sent == ["SIGSTOP"]
    controller.tick(0.3)
    controller.tick(0.31)
    assert signals.sent == ["SIGSTOP", "SIGCONT"]


def test_a_frozen_process_is_not_continued_by_its_budget(controller, signals, sleeper):
    controller.command({"device": 0, "pid": sleeper.pid, "share": 0.5}, 0.0)
    controller.tick(0.05)
    controller.command({"device": 0, "frozen": True}, 0.06)
    for i in range(100):
        controller.tick(0.1 + 0.01 * i)
    assert signals.sent == ["SIGSTOP"]
    controller.command({"device": 0, "frozen": False}, 2.0)
    assert signals.sent == ["SIGSTOP", "SIGCONT"]


def test_without_budgets_nobody_is_watched(controller, sleeper):
    controller.command({"device": 0, "pid": sleeper.pid, "share": None}, 0.0)
    assert not controller.ticking
    controller.command({"device": 0, "share": 0.2}, 0.0)
    assert controller.ticking


def test_a_process_that_is_gone_is_forgotten_and_its_number_is_never_signalled(signals):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    controller = Controller(signals.send)
    controller.command({"device": 0, "pid": gone.pid, "share": 0.1}, 0.0)
    controller.command({"device": 0, "frozen": True}, 0.0)
    assert signals.sent == []
    assert not controller.processes


def test_a_process_that_dies_while_it_is_watched_is_forgotten(sleeper):
    controller = Controller()
    controller.command({"device": 0, "pid": sleeper.pid, "share": 0.1}, time.monotonic())
    sleeper.kill()
    sleeper.wait()
    controller.tick(time.monotonic() + 1.0)
    assert not controller.processes


def test_the_clock_of_a_process_counts_its_processor_time():
    before = time.clock_gettime(cpu_clock(os.getpid()))
    until = time.process_time() + 0.02
    while time.process_time() < until:
        pass
    assert time.clock_gettime(cpu_clock(os.getpid())) - before >= 0.02
