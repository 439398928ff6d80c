"""Pace steering: when a device without work should come back (Bonawitz et al. 2019, section 2.3).

A small fleet comes back together, as soon as work is likely, so that rounds start at once. A large one is spread over as long as
the server needs to bear its calls. Who comes when is an addressed hash of client and round, so that nobody is last every time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

import numpy as np

from fedfleet.core.records import Floats, Ints
from fedfleet.core.rng import uniforms

MIN_SECONDS = 1.0
MAX_SECONDS = 300.0
CALLS_PER_SECOND = 1000.0  # that a small server can bear beside its reports
_UPDATE_SECONDS = 0.5  # between two looks at when new work is likely
_TRUST = 4.0  # times as long as it was seen for, a rate is expected to last
_FASTER = 1.25  # than reports came of late, devices may come back


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How many reports come per second, of late: a count that halves every `half_life` seconds."""

    began: float
    half_life: float = 30.0
    weight: float = 0.0
    at: float = -math.inf


def add_arrivals(arrivals: Arrivals, count: int, now: float) -> Arrivals:
    """The rate after `count` more."""
    return Arrivals(arrivals.began, arrivals.half_life, _decayed_weight(arrivals, now) + count, max(now, arrivals.at))


def rate(arrivals: Arrivals, now: float) -> float:
    """Arrivals per second; right from the first on, because it knows for how long it has looked.

    >>> rate(add_arrivals(Arrivals(began=0.0), 50, 10.0), 10.0) > 5
    True
    """
    elapsed = max(now - arrivals.began, 0.0)
    effective_seconds = arrivals.half_life / math.log(2) * -math.expm1(-elapsed * math.log(2) / arrivals.half_life)
    return _decayed_weight(arrivals, now) / effective_seconds if effective_seconds > 0 else 0.0


def _decayed_weight(arrivals: Arrivals, now: float) -> float:
    if not arrivals.weight:
        return 0.0
    return arrivals.weight * 2.0 ** (-max(now - arrivals.at, 0.0) / arrivals.half_life)


class ServerActivity(Enum):
    """What the server is doing."""

    AWAITING_FLEET = auto()  # an ask waits for devices
    AWAITING_REPORTS = auto()
    WORKING = auto()  # it gathers, applies or evaluates


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known of the time until there is new work. `until_end`: seconds after which the round ends in any case.

    `usual_seconds`: how long this took the time before, 0 if there was none; `elapsed`: how long it has taken so far.
    """

    activity: ServerActivity
    missing: int = 0  # reports until the round can end
    per_second: float = 0.0  # at which they come
    until_end: float = math.inf
    usual_seconds: float = 0.0
    elapsed: float = 0.0


def seconds_to_work(outlook: Outlook) -> float:
    """In how many seconds new work is likely; infinity: unknown.

    While nothing came, a round is expected to last as long again as it has lasted; a rate that was seen for a short time is not
    trusted for a long one, for a device that was sent away for too long would keep the next round waiting.

    >>> seconds_to_work(Outlook(ServerActivity.AWAITING_REPORTS, missing=100, per_second=20.0))
    5.0
    >>> seconds_to_work(Outlook(ServerActivity.AWAITING_REPORTS, missing=100, elapsed=3.0))
    3.0
    """
    match outlook.activity:
        case ServerActivity.AWAITING_FLEET:
            return 0.0
        case ServerActivity.WORKING:
            return max(outlook.usual_seconds - outlook.elapsed, 0.0)
        case ServerActivity.AWAITING_REPORTS:
            if outlook.missing <= 0:
                return 0.0
            seconds = outlook.missing / outlook.per_second if outlook.per_second > 0 else outlook.elapsed or math.inf
            rest = outlook.usual_seconds - outlook.elapsed
            limit = rest if rest > 0 else _TRUST * outlook.elapsed or math.inf
            return max(min(seconds, limit, outlook.until_end), 0.0)


class Pace(NamedTuple):
    """When devices without work should come back: from `seconds` on, so many a second."""

    seconds: float
    calls_per_second: float = CALLS_PER_SECOND


class PaceSteering:
    """Follows how fast reports come and how long models take, and says when devices without work should come back."""

    def __init__(self, now: float) -> None:
        self._activity, self._activity_began, self._seen_at = ServerActivity.AWAITING_FLEET, now, now
        self._usual_seconds: dict[ServerActivity, float] = {}
        # Rates are those of the time in which reports are waited for: pauses between rounds say nothing about a round.
        self._arrivals, self._awaited_seconds = Arrivals(began=0.0), 0.0
        self._count = 0
        self._updated_at = -math.inf
        self.announced: Pace | None = None  # what frontends were last told

    def on_arrival(self) -> None:
        """A report came."""
        self._count += 1

    def on_turn(self, now: float, *, working: bool, asking: bool, missing: int, round_end: float | None) -> Pace | None:
        """When new work is likely and how fast devices may come for it, if frontends are to be told: it is time, and it is news.

        `missing` are the reports until the round can end, `round_end` is when it ends in any case.
        """
        self._follow(_activity(working=working, asking=asking), now)
        if now - self._updated_at < _UPDATE_SECONDS:
            return None
        self._updated_at = now
        if self._count:
            self._arrivals, self._count = add_arrivals(self._arrivals, self._count, self._awaited_seconds), 0
        per_second = rate(self._arrivals, self._awaited_seconds)
        until_end = math.inf if round_end is None else round_end - now
        usual_seconds = self._usual_seconds.get(self._activity, 0.0)
        outlook = Outlook(self._activity, missing, per_second, until_end, usual_seconds, now - self._activity_began)
        pace = Pace(min(seconds_to_work(outlook), MAX_SECONDS), bearable_calls(per_second))
        if self.announced is not None and _is_near(pace, self.announced):
            return None
        self.announced = pace
        return pace

    def _follow(self, activity: ServerActivity, now: float) -> None:
        """Note what the server does, and how long it did what it did before."""
        if self._activity is ServerActivity.AWAITING_REPORTS:
            self._awaited_seconds += now - self._seen_at
        self._seen_at = now
        if activity is not self._activity:
            self._usual_seconds[self._activity] = now - self._activity_began
            self._activity, self._activity_began = activity, now


def _activity(*, working: bool, asking: bool) -> ServerActivity:
    if working:
        return ServerActivity.WORKING
    return ServerActivity.AWAITING_FLEET if asking else ServerActivity.AWAITING_REPORTS


def _is_near(pace: Pace, before: Pace) -> bool:
    is_same_moment = abs(pace.seconds - before.seconds) <= 0.1 * before.seconds + 0.2
    return is_same_moment and abs(pace.calls_per_second - before.calls_per_second) <= 0.1 * before.calls_per_second


def bearable_calls(reports_per_second: float) -> float:
    """How many calls a second a server can bear that receives so many reports a second: a quarter more, to find out what it can.

    >>> bearable_calls(10.0), bearable_calls(1200.0)
    (1000.0, 1500.0)
    """
    return max(CALLS_PER_SECOND, _FASTER * reports_per_second)


def spread_seconds(fleet: int, calls_per_second: float = CALLS_PER_SECOND) -> float:
    """Over how long a fleet's calls must be spread so that the server can bear them."""
    return fleet / calls_per_second


def return_delays(
    clients: Ints,
    round: int,
    *,
    likely: float,
    fleet: int,
    seed: int = 0,
    calls_per_second: float = CALLS_PER_SECOND,
    min_seconds: float = MIN_SECONDS,
    max_seconds: float = MAX_SECONDS,
) -> Floats:
    """In how many seconds each of these clients should come back, when work is likely in `likely` seconds.

    Between `min_seconds` and `max_seconds`, or as much more as the fleet needs to be spread: beginning with the moment at which
    work is likely, over `spread_seconds`, and over a tenth of the wait at least, since that moment is a guess.
    """
    width = spread_seconds(fleet, calls_per_second)
    start = min(max(likely, min_seconds), max_seconds)
    if width <= min_seconds:  # a small fleet returns together: its calls are no burden, and a round waits for the last
        return np.full(len(clients), start)
    width = max(width, 0.1 * start)
    start = max(min(start, max_seconds - width), min_seconds)
    return start + width * uniforms(seed, "come back", clients.astype(np.uint64), round)
