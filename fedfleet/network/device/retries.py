"""Patience with a server: growing pauses, which failures end an exchange, and one sentence for each change of the line."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from fedfleet.network.device.call_errors import (
    CallRefused,
    Damaged,
    UnknownDevice,
    Unreachable,
    WrongCertificate,
    end_of_patience,
)

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
_WARN_AFTER = 1.0  # seconds without an answer, before a person is told
_REFUSALS = 3  # times that a server says the same, before it is believed: one may come from a damaged status
_RENEW_EVERY = 3  # failures in a row after which even a line that looks sound is made anew
Reply = TypeVar("Reply")
FAILURES = (Unreachable, CallRefused, UnknownDevice)  # what `Tries.fail` decides


@dataclass(slots=True)
class RetryPolicy:
    """How a device waits: pauses double up to a limit, and chance shortens each, so that a fleet does not come back at once."""

    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = field(default_factory=lambda: random.SystemRandom().random)

    def pauses(self, first: float = FIRST_PAUSE, longest: float = LONGEST_PAUSE) -> Iterator[float]:
        """One pause after the other, each between half of its length and the whole of it.

        >>> [round(p, 2) for p, _ in zip(RetryPolicy(chance=lambda: 0.0).pauses(), range(8))]
        [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0]
        """
        pause = first
        while True:
            yield pause * (1.0 - 0.5 * self.chance())
            pause = min(2.0 * pause, longest)


def bounded_seconds(seconds: float, *, most: float) -> float:
    """Seconds as a server names them: whatever number that is, 0 at least and so many at most.

    >>> [bounded_seconds(s, most=60.0) for s in (2.5, -1.0, float("nan"), float("inf"))]
    [2.5, 0.0, 0.0, 60.0]
    """
    return min(most, max(0.0, seconds))  # in this order, since no comparison with NaN is true


class Line(Protocol):
    """What patience has to know of a connection."""

    server: str
    uses_tls: bool
    worked: bool

    def renew(self) -> None:
        """Hang up; the next call makes another connection."""
        ...


def no_remark(text: str) -> None:
    """Tell nobody."""
    del text


class Tries:
    """The tries of one exchange: what fails is retried or ends it, and a person hears of each change of the line once."""

    def __init__(self, line: Line, wait: RetryPolicy, seconds: float, remark: Callable[[str], None] | None = None) -> None:
        self._line, self._wait, self._seconds, self._remark = line, wait, seconds, remark or no_remark
        self._start, self._failures, self._told = wait.clock(), 0, False
        self._last, self._same = "", 0

    def fail(self, error: Exception) -> None:
        """A try failed: return if another may help, else raise what ends the exchange."""
        line, text = self._line, f"{type(error).__name__} {error}"
        self._failures += 1
        self._same = self._same + 1 if text == self._last else 1
        self._last = text
        is_certain = not isinstance(error, Unreachable) and self._same >= _REFUSALS
        if is_certain and isinstance(error, UnknownDevice):
            raise error
        is_stranger = isinstance(error, WrongCertificate) and not line.worked and self._failures >= _REFUSALS
        if is_certain or is_stranger:
            raise end_of_patience(line.server, error, uses_tls=line.uses_tls)
        if self._failures % _RENEW_EVERY == 0 or isinstance(error, Damaged) or not isinstance(error, Unreachable):
            line.renew()
        if not self._told and self._wait.clock() - self._start > _WARN_AFTER:
            self._remark(f"no usable answer from the server at {line.server} ({error}); trying again for {self._seconds:.0f} s")
            self._told = True

    def succeed(self) -> None:
        """A try worked."""
        if self._told:
            self._remark(f"the server at {self._line.server} answers again")
        self._failures, self._same, self._last, self._told = 0, 0, "", False
        self._start = self._wait.clock()

    def is_over(self, pause: float) -> bool:
        """Would patience end before the next try?"""
        return self._wait.clock() + pause > self._start + self._seconds


def call_with_retries(
    call: Callable[[], Reply],
    line: Line,
    wait: RetryPolicy,
    seconds: float,
    remark: Callable[[str], None] | None = None,
) -> Reply:
    """One call, tried again with growing pauses until it works; BadInput when it is refused for good, or when patience ends."""
    tries = Tries(line, wait, seconds, remark)
    for pause in wait.pauses():
        try:
            reply = call()
        except FAILURES as error:
            tries.fail(error)
            if tries.is_over(pause):
                raise end_of_patience(line.server, error, uses_tls=line.uses_tls) from None
        else:
            tries.succeed()
            return reply
        wait.sleep(pause)
    raise AssertionError("pauses never end")
