"""What the processes of a server count, and its sum, which never falls although processes die and begin again at 0.

A transmitter counts in a mapping and sends it now and then (`ToProcessor.counters`): everything since it was started, or only what
changed. Names are paths: `calls/Hand/OK`, `bytes_up`, `strikes`, `receive_seconds_bucket/0.05`. LEVELS are no counts: they rise and
fall, and go with their process.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
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
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds in which a report was received
_BUCKETS = {bound: f"receive_seconds_bucket/{bound:g}" for bound in BOUNDS}
OPEN_CALLS, INFLIGHT_BYTES = "open_calls", "in_flight_bytes"
LEVELS = frozenset({OPEN_CALLS, INFLIGHT_BYTES})


def count_call(counters: MutableMapping[str, int], method: str, code: str = "OK") -> None:
    """A call of the service ended so."""
    name = f"calls/{method if method in METHODS else 'other'}/{code if code in CODES else 'other'}"
    counters[name] = counters.get(name, 0) + 1


def count_report(counters: MutableMapping[str, int], seconds: float) -> None:
    """A whole report came in, and took so long; a bucket counts all that took at most so long as it says."""
    counters["receive_seconds_count"] = counters.get("receive_seconds_count", 0) + 1
    for bound, name in _BUCKETS.items():
        if seconds <= bound:
            counters[name] = counters.get(name, 0) + 1


@dataclass(frozen=True, slots=True)
class ProcessCounters:
    """What a process that lives has told so far; `life` tells it from those that were at its place before."""

    life: int
    values: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class Totals:
    """The counts of all processes: of those that ended, and by place the newest of those that live."""

    ended: Mapping[str, float] = field(default_factory=dict[str, float])
    living: Mapping[int, ProcessCounters] = field(default_factory=dict[int, ProcessCounters])


def update_process(totals: Totals, place: int, life: int, counters: Mapping[str, float]) -> Totals:
    """A process at this place told its counters; another life than before, or a count that fell, is one that began anew.

    >>> one = update_process(Totals(), 0, 1, {"strikes": 3})
    >>> sum_totals(update_process(one, 0, 2, {"strikes": 1}))
    {'strikes': 4.0}
    """
    before = totals.living.get(place, ProcessCounters(life))
    fell = any(counters[n] < v for n, v in before.values.items() if n in counters and n not in LEVELS)
    if before.life != life or fell:
        totals = end_process(totals, place)
        before = ProcessCounters(life)
    current = ProcessCounters(life, {**before.values, **counters})
    return replace(totals, living={**totals.living, place: current})


def end_process(totals: Totals, place: int) -> Totals:
    """The process at this place ended, and whatever it told was heard: its counts stay, its levels go."""
    last = totals.living.get(place)
    if last is None:
        return totals
    counts = {n: v for n, v in last.values.items() if n not in LEVELS}
    counts_of_ended = _add_counts(dict(totals.ended), counts)
    return Totals(counts_of_ended, {p: process for p, process in totals.living.items() if p != place})


def sum_totals(totals: Totals) -> dict[str, float]:
    """All counts and levels together."""
    total = dict(totals.ended)
    for process in totals.living.values():
        total = _add_counts(total, process.values)
    return total


def split(values: Mapping[str, float], prefix: str) -> dict[str, float]:
    """What stands below a prefix, by the rest of the name.

    >>> split({"calls/Hand/OK": 2.0, "strikes": 1.0}, "calls/")
    {'Hand/OK': 2.0}
    """
    return {n.removeprefix(prefix): v for n, v in values.items() if n.startswith(prefix)}


def buckets_of(values: Mapping[str, float]) -> list[tuple[float, float]]:
    """The histogram of seconds in which reports were received: upper bounds, and how many took at most so long."""
    result = [(bound, values.get(name, 0.0)) for bound, name in _BUCKETS.items()]
    return [*result, (float("inf"), values.get("receive_seconds_count", 0.0))]


def _add_counts(into: dict[str, float], more: Mapping[str, float]) -> dict[str, float]:
    for name, value in more.items():
        into[name] = into.get(name, 0.0) + value
    return into
