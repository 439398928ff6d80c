"""Ctrl-C in a call from which no exception comes out is heard after it."""

import signal
import time

import pytest

from fedfleet.app.terminal.interrupts import caused_by_interrupt, safe_interrupts

CALLED = "def {name}(): raise_signal(SIGINT); ends.append('whole')"


@pytest.mark.parametrize(
    ("module", "name", "ended"),
    [
        ("llvmlite.binding.executionengine", "_raw_object_cache_notify", ["whole"]),
        ("weakref", "remove", ["whole"]),
        ("somewhere.else", "remove", []),
    ],
)
def test_an_interrupt_waits_for_the_end_of_a_call_from_which_it_could_not_come_out(module, name, ended):
    scope = {"__name__": module, "raise_signal": signal.raise_signal, "SIGINT": signal.SIGINT, "ends": []}
    exec(CALLED.format(name=name), scope)

    def call_and_wait():
        scope[name]()
        time.sleep(60.0)  # until the interrupt comes

    with pytest.raises(KeyboardInterrupt), safe_interrupts():
        call_and_wait()
    assert scope["ends"] == ended
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_that_somebody_chose_stays():
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        with safe_interrupts():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [1]


def test_an_error_that_was_made_of_an_interrupt_is_one():
    made = RuntimeError("Error calling __set_name__")
    assert not caused_by_interrupt(made)
    made.__cause__ = KeyboardInterrupt()
    assert caused_by_interrupt(made)
