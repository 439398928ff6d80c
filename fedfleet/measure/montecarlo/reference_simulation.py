"""The same simulation, literally: lists and loops, every client looked at in every round. The reference for `kernel`."""

from __future__ import annotations

import math

from fedfleet.core.fleet import DeviceTable, StateTable
from fedfleet.core.shared_rows import RowNumbers
from fedfleet.measure.montecarlo.settings import Settings

_MASK = 0xFFFFFFFFFFFFFFFF
_GOLDEN = 0x9E3779B97F4A7C15


class Draws:
    """The one sequence of random numbers (splitmix64) of a simulation."""

    def __init__(self, seed: int) -> None:
        self.z = _scramble((seed + _GOLDEN) & _MASK)

    def below(self, n: int) -> int:
        """A number from 0 to n - 1."""
        self.z = (self.z + _GOLDEN) & _MASK
        return ((_scramble(self.z) >> 32) * n) >> 32


def _scramble(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def simulate(
    settings: Settings, devices: DeviceTable | None, states: StateTable | None, *, seed: int, t_cost: float, by_deadline: bool
) -> tuple[list[int], float]:
    """One simulated training: successes per client and the virtual time at the end.

    That time is infinite if trips are counted and no client is ever ready when a round begins.
    """
    n = settings.clients(devices, states)
    draws, successes = Draws(seed), [0] * n
    t, rounds, trips, empty = 0.0, 0, 0, 0
    while rounds < settings.rounds if by_deadline else trips < settings.trips:
        t += settings.t_break
        rounds += 1
        moments = [t] * n
        if states is not None and settings.is_released:  # released code cuts the fraction off towards the trace's start
            starts = [states.traces.start[_row(states.traces.row_index, c)] for c in range(n)]
            moments = [math.floor(t) if t >= start else math.ceil(t) for start in starts]
        ready = [c for c in range(n) if states is None or is_ready(states, c, moments[c])]
        chosen = choose(ready, settings.k, n, draws)
        durations = list[float]()
        for c in chosen:
            cost = t_cost if devices is None else _device_cost(settings, devices, c, draws)
            if states is None:
                durations.append(cost)
            else:
                durations.append(seconds_until_done(states, c, moments[c], math.ceil(cost) if settings.is_released else cost))
        empty = 0 if chosen else empty + 1
        if not by_deadline and empty > settings.most_empty_rounds(states):
            return successes, math.inf
        if not chosen:
            continue
        if by_deadline:
            for c, seconds in zip(chosen, durations, strict=True):
                successes[c] += seconds <= settings.deadline
            t += max(min(seconds, settings.deadline) for seconds in durations)
        else:
            t = quantile([t + seconds for seconds in durations], settings.ready_share)
        trips += len(chosen)
    return successes, t


def choose(ready: list[int], k: int, n: int, draws: Draws) -> list[int]:
    """k of the ready clients without replacement; all of them if there are not more."""
    if len(ready) <= k:
        return ready
    if len(ready) < 2 * k:
        pool, chosen = list(ready), list[int]()
        for _ in range(k):
            i = draws.below(len(pool))
            chosen.append(pool[i])
            pool[i] = pool[-1]
            pool.pop()
        return chosen
    remaining, chosen = set(ready), list[int]()
    while len(chosen) < k:
        c = draws.below(n)
        if c in remaining:
            remaining.remove(c)
            chosen.append(c)
    return chosen


def _row(rows: RowNumbers | None, c: int) -> int:
    return c if rows is None else int(rows[c])


def _spans(states: StateTable, c: int) -> list[tuple[float, float]]:
    t = states.traces
    row = _row(t.row_index, c)
    a, b = int(t.offsets[row]), int(t.offsets[row + 1])
    return list(zip(t.begins[a:b].tolist(), t.ends[a:b].tolist(), strict=True))


def is_ready(states: StateTable, c: int, moment: float) -> bool:
    """Does one of the client's intervals hold this moment?"""
    row = _row(states.traces.row_index, c)
    start, period = float(states.traces.start[row]), float(states.traces.period[row])
    base = start + math.floor((moment - start) / period) * period
    return any(base + low <= moment < base + high for low, high in _spans(states, c))


def seconds_until_done(states: StateTable, c: int, moment: float, need: float) -> float:
    """Seconds from a ready moment until the client has been ready for `need` seconds."""
    if need <= 0:
        return 0.0
    row = _row(states.traces.row_index, c)
    start, period = float(states.traces.start[row]), float(states.traces.period[row])
    base = start + math.floor((moment - start) / period) * period
    left = need
    while True:
        for low, high in _spans(states, c):
            begin, end = base + low, base + high
            if end <= moment:
                continue
            length = end - moment if begin <= moment else high - low
            if left <= length:
                # Inside the first interval the answer is the need itself, without detour through absolute time.
                return need if begin <= moment else begin + left - moment
            left -= length
        base += period


def _device_cost(settings: Settings, devices: DeviceTable, c: int, draws: Draws) -> float:
    row = _row(devices.row_index, c)
    down = devices.down[devices.down_offsets[row] : devices.down_offsets[row + 1]].tolist()
    up = devices.up[devices.up_offsets[row] : devices.up_offsets[row + 1]].tolist()
    first = down[draws.below(len(down))]
    second = up[draws.below(len(up))] if up else down[draws.below(len(down))]
    size = settings.size_kb
    compute = settings.compute_seconds(float(devices.seconds_per_sample[row]))
    return size / (first / 8.0) + size / (second / 8.0) + compute


def quantile(values: list[float], q: float) -> float:
    """The q-quantile with linear interpolation."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * q
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
