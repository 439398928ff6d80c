"""Arithmetic on periodic ready intervals, for many clients at once and without per-second arrays.

A trace is a period and sorted disjoint half-open intervals inside it. Each client's intervals are searched on their
own (a vectorised bisection), so that a client's answer never depends on who else is in the fleet. Clients may share
a trace.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.records import Bools, Floats, Ints
from fedfleet.core.shared_rows import RowNumbers, row_of

_FEW = 64  # up to so many queries plain Python is faster than several calls of numpy


@dataclass(frozen=True, slots=True)
class Traces:
    """Ready intervals, flat: trace i owns entries offsets[i] to offsets[i + 1].

    Client c follows trace `row_index[c]`; without `row_index`, trace c. The length is the number of clients.
    """

    start: Floats
    period: Floats
    offsets: Ints
    begins: Floats  # phase at which an interval begins
    ends: Floats  # phase at which it ends
    before: Floats  # ready seconds of this trace's period before the interval
    total: Floats  # ready seconds in a whole period
    row_index: RowNumbers | None = None

    def __len__(self) -> int:
        return len(self.start) if self.row_index is None else len(self.row_index)


def traces(start: Floats, period: Floats, offsets: Ints, begins: Floats, ends: Floats) -> Traces:
    """Check and index ready intervals; phases count from each trace's start."""
    counts = np.diff(offsets)
    owner = np.repeat(np.arange(len(start)), counts)
    lengths = ends - begins
    problems = (
        (np.flatnonzero(~((period > 0) & np.isfinite(period))), "its period is not positive and finite"),
        (np.flatnonzero(counts == 0), "it is never ready"),
        (owner[~(lengths > 0)], "an interval does not end after it begins"),
        (owner[(begins < 0) | (ends > period[owner])], "an interval lies outside its period"),
        (owner[1:][(owner[1:] == owner[:-1]) & (begins[1:] < ends[:-1])], "intervals overlap"),
    )
    for clients, why in problems:
        if len(clients):
            raise BadInput(f"state of client {int(clients[0])}: {why}; give sorted, disjoint intervals")
    running = np.concatenate([[0.0], np.cumsum(lengths)])
    # Sums restart at each client, so that a client's numbers do not depend on its neighbours.
    before = np.empty_like(lengths)
    total = np.empty(len(start))
    if running[-1] < 2.0**42 and not np.remainder(running, 2.0**-10).any():  # such sums are exact in any order
        before[:] = running[:-1] - running[offsets[:-1]][owner]
        total[:] = running[offsets[1:]] - running[offsets[:-1]]
    else:
        for i in range(len(start)):
            a, b = int(offsets[i]), int(offsets[i + 1])
            sums = np.cumsum(lengths[a:b])
            before[a:b] = np.concatenate([[0.0], sums[:-1]])
            total[i] = sums[-1]
    return Traces(start, period, offsets, begins, ends, before, total)


def _last_at_or_before(values: Floats, low: Ints, high: Ints, x: Floats) -> Ints:
    """For each query the last index in [low, high) whose value is <= x, or low - 1: a bisection, all queries together."""
    if len(x) <= _FEW:
        numbers = values.data
        queries = zip(x.tolist(), low.tolist(), high.tolist(), strict=True)
        return np.array([bisect_right(numbers, query, first, last) - 1 for query, first, last in queries], np.int64)
    a, b = low.copy(), high.copy()
    while True:
        open_ = a < b
        if not open_.any():
            return a - 1
        middle = (a + b) >> 1
        right = open_ & (values[np.minimum(middle, len(values) - 1)] <= x)
        a = np.where(right, middle + 1, a)
        b = np.where(open_ & ~right, middle, b)


def phase_of(t: Traces, clients: Ints, time: float) -> Floats:
    """Where in its period each client's trace is at `time`."""
    return _phase(t, row_of(t.row_index, clients), time)


def _phase(t: Traces, rows: Ints, time: float | Floats) -> Floats:
    return np.mod(time - t.start[rows], t.period[rows])


def ready_until(t: Traces, clients: Ints, time: float | Floats) -> tuple[Bools, Floats]:
    """Is each client ready at `time`, and until when does that answer hold? `time` may be each client's own.

    An interval of the k-th period is there from start + (k period + begin) on and before start + (k period + end), as these are
    rounded: an answer ends at the same moment, to the last bit, whenever it was asked for.
    """
    rows = row_of(t.row_index, clients)
    start, period = t.start[rows], t.period[rows]
    low, high = t.offsets[rows], t.offsets[rows + 1]
    phase = _phase(t, rows, time)
    lap = np.rint((time - start - phase) / period)
    i = _last_at_or_before(t.begins, low, high, phase)
    # The phase may be off by a rounding, and then so is the interval; the moments decide.
    i = i - ((i >= low) & (start + (lap * period + t.begins[np.maximum(i, 0)]) > time))
    turns, following = i + 1 >= high, np.where(i + 1 >= high, low, i + 1)
    opens = start + ((lap + turns) * period + t.begins[following])
    opened = opens <= time
    if opened.any():
        i, lap = np.where(opened, following, i), lap + (opened & turns)
        turns, following = i + 1 >= high, np.where(i + 1 >= high, low, i + 1)
        opens = start + ((lap + turns) * period + t.begins[following])
    closes = start + (lap * period + t.ends[np.maximum(i, 0)])
    inside = (i >= low) & (time < closes)
    return inside, np.maximum(np.where(inside, closes, opens), np.nextafter(time, np.inf))


def finish_after(t: Traces, clients: Ints, time: float, seconds: Floats) -> Floats:
    """When each client has been ready for `seconds` since `time`; unready time in between only delays."""
    rows = row_of(t.row_index, clients)
    phase = _phase(t, rows, time)
    low, high = t.offsets[rows], t.offsets[rows + 1]
    total, period = t.total[rows], t.period[rows]
    i = _last_at_or_before(t.begins, low, high, phase)
    at = np.maximum(i, low)
    used = np.where(i < low, 0.0, t.before[at] + np.minimum(phase, t.ends[at]) - t.begins[at])
    goal = used + seconds
    # Work that exactly fills a period ends inside that period, not at the first moment of the next.
    laps = np.maximum(np.ceil(goal / total) - 1.0, 0.0)
    rest = goal - laps * total
    j = np.maximum(_last_at_or_before(t.before, low, high, np.nextafter(rest, -np.inf)), low)
    end = time + ((laps * period + t.begins[j] + (rest - t.before[j])) - phase)
    return np.where(seconds <= 0, time, np.maximum(end, time))


def ready_seconds(t: Traces, clients: Ints, start: float, until: Floats) -> Floats:
    """How many ready seconds each client has between `start` and its own `until`: the inverse of `finish_after`."""
    rows = row_of(t.row_index, clients)
    begin, to = (_ready_since(t, rows, np.broadcast_to(np.asarray(x, np.float64), len(rows))) for x in (start, until))
    return np.maximum(to - begin, 0.0)


def _ready_since(t: Traces, rows: Ints, time: Floats) -> Floats:
    """Ready seconds since each trace began."""
    phase = _phase(t, rows, time)
    laps = np.rint((time - t.start[rows] - phase) / t.period[rows])
    low = t.offsets[rows]
    i = _last_at_or_before(t.begins, low, t.offsets[rows + 1], phase)
    at = np.maximum(i, low)
    inside = np.where(i < low, 0.0, t.before[at] + np.minimum(phase, t.ends[at]) - t.begins[at])
    return laps * t.total[rows] + inside
