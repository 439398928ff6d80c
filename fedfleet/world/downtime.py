"""Clients that go down and come back: each on its own, or all of a group together; and whom one can reach meanwhile.

Time is cut into windows of one `period`. Whether a client or a group goes down in a window, and when, is addressed by the number of
the window: no bit of a time decides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Count, Fraction, Positive
from fedfleet.core.records import Bools, Floats, Ints, Keys
from fedfleet.core.rng import hash_keys, uniforms
from fedfleet.core.sources import FaultDraws, FaultSource, StateSource
from fedfleet.world.faults import FaultRecipe, no_faults, no_slowdown

_WINDOWS_PER_PASS = 64  # windows that are looked through at once
_MAX_WINDOWS = 1 << 16  # a task that lasts for more windows than this goes down no more: nobody waits for it either


def crashes(*, rate: Fraction = 0.02, seconds: Positive = 600.0, period: Positive = 3600.0) -> FaultRecipe:
    """Clients go down, each on its own, and return `seconds` later: in any `period` with the chance `rate`.

    Who goes down loses its task without a word and cannot be asked until it is back.
    """
    _check("crashes", seconds, period)
    return lambda keys, seed: _source(_Windows("crash", seed, rate, seconds, period), keys, None)


def outages(*, rate: Fraction = 0.05, seconds: Positive = 1800.0, period: Positive = 21600.0, groups: Count = 10) -> FaultRecipe:
    """All clients of a group go down together, and return `seconds` later: in any `period` with the chance `rate`.

    Clients are dealt to `groups` by their keys: a network, a region, a carrier. Tasks that run there are lost without a word.
    """
    _check("outages", seconds, period)

    def recipe(keys: Keys, seed: int) -> FaultSource:
        group = (hash_keys(seed, "outage/group", keys) % np.uint64(groups)).astype(np.int64)
        return _source(_Windows("outage", seed, rate, seconds, period), np.arange(groups, dtype=np.uint64), group)

    return recipe


def _check(name: str, seconds: float, period: float) -> None:
    if seconds > period:
        raise BadInput(f"{name}: seconds = {seconds:g} does not fit into period = {period:g}; raise period or lower seconds")


@dataclass(frozen=True, slots=True)
class _Windows:
    """When units (clients, groups) are down: in a window at most once, and never across its end."""

    label: str
    seed: int
    rate: float
    seconds: float
    period: float

    def begins(self, units: Keys, window: Ints | int) -> Floats:
        """When each unit goes down in a window; infinite: not at all."""
        hit = uniforms(self.seed, self.label, units, window) < self.rate
        place = uniforms(self.seed, f"{self.label}/when", units, window)
        return np.where(hit, window * self.period + place * (self.period - self.seconds), np.inf)

    def first(self, units: Keys, start: float, ends: Floats) -> Floats:
        """The first moment from `start` on, and before its end, at which each unit is down; infinite if there is none."""
        result, window = np.full(len(units), np.inf), math.floor(start / self.period)
        farthest = window + _MAX_WINDOWS
        while self.rate > 0 and window < farthest:
            open_ = np.flatnonzero((result == np.inf) & (ends > max(start, window * self.period)))
            if not len(open_):
                break
            last = float(ends[open_].max()) / self.period
            many = int(min(_WINDOWS_PER_PASS, farthest - window, max(1.0, last - window + 1.0)))
            numbers = np.tile(np.arange(window, window + many), len(open_))
            down = self.begins(np.repeat(units[open_], many), numbers).reshape(len(open_), many)
            moments = np.where(down + self.seconds > start, np.maximum(down, start), np.inf).min(axis=1)
            result[open_] = np.where(moments < ends[open_], moments, np.inf)
            window += many
        return result


def _source(windows: _Windows, units: Keys, unit_of: Ints | None) -> FaultSource:
    """The faults of clients that belong to units; without `unit_of`, client i is unit i."""
    known: tuple[int, Floats] = (-1, np.zeros(0))  # the newest window, since the same one is asked about again and again

    def begins(time: float) -> Floats:
        nonlocal known
        window = math.floor(time / windows.period)
        if window != known[0]:
            known = (window, windows.begins(units, window))
        return known[1]

    def down(time: float) -> Bools:
        began = begins(time)
        return (began <= time) & (time < began + windows.seconds)

    def away(time: float) -> Bools:
        return down(time) if unit_of is None else down(time)[unit_of]

    def back(time: float) -> float:
        return float((begins(time)[down(time)] + windows.seconds).min(initial=math.inf))

    def draw(clients: Ints, start: float, ends: Floats, _tasks: Ints) -> FaultDraws:
        own_units = units[clients if unit_of is None else unit_of[clients]]
        return no_faults(len(clients), crash=windows.first(own_units, start, ends))

    return FaultSource(no_slowdown, draw, away, back, silences=windows.rate > 0)


def reachable_states(states: StateSource, faults: FaultSource | None) -> StateSource:
    """The states in which clients that are down cannot be reached. What work of theirs is lost the faults say themselves."""
    if faults is None or faults.away is None:
        return states
    away, back = faults.away, faults.back

    def online(time: float) -> Bools:
        return states.online(time) & ~away(time)

    inner = states.earliest

    def earliest(among: Bools, n: int, start: float, until: float) -> float:
        assert inner is not None and back is not None
        time = inner(among, n, start, until)  # with everyone up it would not be before
        while time < until:
            # Until somebody returns there are no more than those who are up now, and some of these may go down.
            moment, returns = inner(among & ~away(time), n, time, until), back(time)
            if moment < returns and np.count_nonzero(online(moment) & among) >= n:
                return moment
            time = min(moment, returns)
        return math.inf

    known = None if inner is None or back is None else earliest
    return StateSource(online, states.finish, known, states.worked, warnings=states.warnings)
