"""The event loop of a load generator: what wakes it is taken at once.

`grpc.aio` writes a byte into a socket pair for each of its events, and takes one byte a turn, though it handles all events that
there are. Under load most turns of the loop find nothing to do. Here a turn takes all bytes but the last, which `grpc.aio` takes.
"""

from __future__ import annotations

import array
import asyncio
import fcntl
import os
import termios
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

_GRPC_QUEUE = "PollerCompletionQueue"  # the class of grpc.aio that is woken in this way; another is left alone
Result = TypeVar("Result")


class WakeOnceLoop(asyncio.SelectorEventLoop):
    """A loop that does not turn for wake-ups whose events were handled already."""

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:
        """Watch a file; that of grpc.aio is read as far as one byte before its callback is called."""
        if type(getattr(callback, "__self__", None)).__name__ != _GRPC_QUEUE:
            super().add_reader(fd, callback, *args)
            return
        number, waiting = fd if isinstance(fd, int) else fd.fileno(), array.array("i", [0])

        def take_all() -> None:
            fcntl.ioctl(number, termios.FIONREAD, waiting)
            if waiting[0] > 1:
                os.read(number, waiting[0] - 1)
            callback(*args)

        super().add_reader(fd, take_all)


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """`asyncio.run` on such a loop."""
    with asyncio.Runner(loop_factory=WakeOnceLoop) as runner:
        return runner.run(main)
