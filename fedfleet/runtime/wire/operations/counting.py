"""What the processes of a server count, and its sum, which never falls although processes die and begin again at 0.

A transmitter counts in `Counts` and sends `said()` now and then (`ToProcessor.counters`): everything since it was started, or only
what changed. Names are paths: `calls/Hand/OK`, `bytes_up`, `strikes`, `receive_seconds_bucket/0.05`. What begins with `now/` is a
level, not a count: it goes with its process.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

# The methods and codes of the service; anything else that somebody calls is `other`, so that nobody can make up labels.
METHODS = ("Enrol", "Check", "Fetch", "Hand", "HandStream", "Held", "Leave", "Status")
CODES = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
)
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)  # seconds in which a report was received
_NAMES = {bound: f"receive_seconds_bucket/{bound:g}" for bound in BOUNDS} | {
    float("inf"): "receive_seconds_bucket/+Inf"
}
_UPPER = (*BOUNDS, float("inf"))
LEVEL = "now/"
OPEN_CALLS, INFLIGHT_BYTES = f"{LEVEL}open_calls", f"{LEVEL}inflight_bytes"


class Counts:
    """What one process has counted since it started. Not for several threads."""

    __slots__ = ("_told", "_values")

    def __init__(self) -> None:
        self._values: dict[str, float] = {}
        self._told: dict[str, float] = {}

    def add(self, name: str, amount: float = 1.0) -> None:
        """Count so much more: `bytes_up`, `bytes_down`, `strikes`, `snapshots`; or a level up or down: `now/open_calls`."""
        self._values[name] = self._values.get(name, 0.0) + amount

    def call(self, method: str, code: str = "OK") -> None:
        """A call of the service ended so."""
        self.add(f"calls/{method if method in METHODS else 'other'}/{code if code in CODES else 'other'}")

    def received(self, seconds: float) -> None:
        """A whole report came in, and took so long to receive."""
        self.add(_NAMES[_UPPER[bisect_left(_UPPER, seconds)]])
        self.add("receive_seconds_sum", seconds)

    def said(self) -> dict[str, float]:
        """What changed since it was last asked, as it stands since the start."""
        changed = {n: v for n, v in self._values.items() if self._told.get(n) != v}
        self._told.update(changed)
        return changed


@dataclass(frozen=True, slots=True)
class Told:
    """What a process that lives has told so far."""

    pid: int
    values: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class Totals:
    """The counts of all processes: of those that ended, and by place the newest of those that live."""

    ended: Mapping[str, float] = field(default_factory=dict[str, float])
    living: Mapping[int, Told] = field(default_factory=dict[int, Told])


def heard(totals: Totals, place: int, pid: int, counters: Mapping[str, float]) -> Totals:
    """A process at this place told its counters; another pid than before, or a count that fell, is a process that began anew.

    >>> one = heard(Totals(), 0, 11, {"strikes": 3})
    >>> summed(heard(one, 0, 12, {"strikes": 1}))
    {'strikes': 4.0}
    """
    before = totals.living.get(place, Told(pid))
    fell = any(counters[n] < v for n, v in before.values.items() if n in counters and not n.startswith(LEVEL))
    if before.pid != pid or fell:
        totals = gone(totals, place)
        before = Told(pid)
    told = Told(pid, {**before.values, **counters})
    return replace(totals, living={**totals.living, place: told})


def gone(totals: Totals, place: int) -> Totals:
    """The process at this place ended, and whatever it told was heard: its counts stay, its levels go."""
    last = totals.living.get(place)
    if last is None:
        return totals
    counts = {n: v for n, v in last.values.items() if not n.startswith(LEVEL)}
    ended = _plus(dict(totals.ended), counts)
    return Totals(ended, {p: told for p, told in totals.living.items() if p != place})


def summed(totals: Totals) -> dict[str, float]:
    """All counts and levels together."""
    found = dict(totals.ended)
    for told in totals.living.values():
        found = _plus(found, told.values)
    return found


def split(values: Mapping[str, float], prefix: str) -> dict[str, float]:
    """What stands below a prefix, by the rest of the name.

    >>> split({"calls/Hand/OK": 2.0, "strikes": 1.0}, "calls/")
    {'Hand/OK': 2.0}
    """
    return {n.removeprefix(prefix): v for n, v in values.items() if n.startswith(prefix)}


def cumulated(values: Mapping[str, float]) -> list[tuple[float, float]]:
    """The histogram of seconds in which reports were received: upper bounds, and how many took at most so long."""
    total, found = 0.0, list[tuple[float, float]]()
    for bound in _UPPER:
        total += values.get(_NAMES[bound], 0.0)
        found.append((bound, total))
    return found


def _plus(into: dict[str, float], more: Mapping[str, float]) -> dict[str, float]:
    for name, value in more.items():
        into[name] = into.get(name, 0.0) + value
    return into
