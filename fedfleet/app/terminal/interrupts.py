"""Ctrl-C while Python is called from where no exception comes out: the interrupt waits until that call is over.

LLVM, the compiler behind numba, calls Python when it has compiled a function; weak references call it when their object is gone.
What is raised there is printed and forgotten: the interrupt would be lost, and a compilation would fail with an error that does not
speak of it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Modules and what they call their functions from which no exception comes out.
_CALLBACKS = {
    ("llvmlite.binding.executionengine", "_raw_object_cache_notify"),
    ("llvmlite.binding.executionengine", "_raw_object_cache_getbuffer"),
    ("weakref", "remove"),
    ("_weakrefset", "_remove"),
}
_AGAIN = 0.02  # seconds after which an interrupt that came in such a call is tried again


@contextmanager
def safe_interrupts() -> Iterator[None]:
    """Inside, Ctrl-C raises KeyboardInterrupt as always, but never in a call from which it could not come out."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is _interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def caused_by_interrupt(error: BaseException | None) -> bool:
    """Whether an error was made of an interrupt, as Python does while it builds a class.

    >>> caused_by_interrupt(RuntimeError("Error calling __set_name__"))
    False
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__
    return error is not None


def _interrupt(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) in _CALLBACKS:
            later = threading.Timer(_AGAIN, signal.pthread_kill, (threading.main_thread().ident, number))
            later.daemon = True
            later.start()
            return
        frame = frame.f_back
    raise KeyboardInterrupt
