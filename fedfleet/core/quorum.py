"""When enough clients can be reached at once: a sweep over the moments at which traces change, in the order of time."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fedfleet.core.intervals import Traces, ready_until
from fedfleet.core.records import Bools, Floats, Ints

Earliest = Callable[[Bools, int, float, float], float]
_FIRST_CHANGES, _MAX_CHANGES = 1 << 12, 1 << 18  # changes looked at together, at first and later on
_CHANGES_PER_TRACE = 16  # and of each trace, on average
_MAX_STEPS_PER_TRACE = 64  # and of one trace: a client that changes more often than others is followed in several steps
_PATIENCE = _FIRST_CHANGES << 3  # when to ask whether enough clients can come at all
_GRAIN = 1024.0  # periods of whole parts of a second have a common multiple
_MAX_PERIODS = 64  # periods among which one is looked for


def first_time_ready(
    t: Traces, rows: Ints, weights: Ints, ready: Bools, changes: Floats, n: int, start: float, until: float
) -> float:
    """The first moment from `start` on, and before `until`, at which traces that stand for n clients are ready.

    `weights` says for how many clients each of the `rows` stands; `ready` and `changes` are what `ready_until` says of them at
    `start`, and are used up.
    """
    count = int(weights[ready].sum())
    if count >= n:
        return start if start < until else math.inf
    if int(weights.sum()) < n:
        return math.inf
    until = min(until, start + _common_period(t.period[rows]))
    changes_per_second = float((2 * (t.offsets[rows + 1] - t.offsets[rows]) / t.period[rows]).sum())  # changes, of all together
    times, steps, batch = np.zeros(0), np.zeros(0, np.int64), _FIRST_CHANGES
    while changes.min() < until:
        limit = min(until, float(changes.min()) + min(batch, _CHANGES_PER_TRACE * len(rows)) / changes_per_second)
        new_times, new_steps = _advance_traces(t, rows, weights, ready, changes, limit)
        times, steps = np.concatenate([times, new_times]), np.concatenate([steps, new_steps])
        # What happens before the next change of any trace is known by now.
        known = times < changes.min()
        result, count = _first_time_at_count(times[known], steps[known], count, n)
        if result < math.inf:
            return result if result < until else math.inf
        times, steps, batch = times[~known], steps[~known], min(2 * batch, _MAX_CHANGES)
        if batch == _PATIENCE and _max_ready_count(t, rows, weights) < n:
            return math.inf  # looked at only now, since those who come at all mostly come soon
    return math.inf


def _advance_traces(t: Traces, rows: Ints, weights: Ints, ready: Bools, changes: Floats, limit: float) -> tuple[Floats, Ints]:
    """The next changes of the traces that change up to `limit`, and what each adds to the count; `ready` and `changes` move on."""
    times: list[Floats] = []
    steps: list[Ints] = []
    due = np.flatnonzero(changes <= limit)
    for _ in range(_MAX_STEPS_PER_TRACE):
        if not len(due):
            break
        at = changes[due]
        now, following = ready_until(t, rows[due], at)
        times.append(at)
        steps.append((now.astype(np.int64) - ready[due]) * weights[due])
        ready[due], changes[due] = now, following
        due = due[following <= limit]
    return np.concatenate(times), np.concatenate(steps)


def _first_time_at_count(times: Floats, steps: Ints, count: int, n: int) -> tuple[float, int]:
    """When the count first reaches n, infinite if it does not; and the count after all steps."""
    if not len(times):
        return math.inf, count
    order = np.argsort(times, kind="stable")
    times, counts = times[order], count + np.cumsum(steps[order])
    last = np.append(times[1:] > times[:-1], True)  # arrivals and departures at one instant count together
    enough = np.flatnonzero(last & (counts >= n))
    return float(times[enough[0]]) if len(enough) else math.inf, int(counts[-1])


def _max_ready_count(t: Traces, rows: Ints, weights: Ints) -> int:
    """A bound on how many are ready at once, ever: the sum over all periods of the most that those who have it reach together."""
    kinds, kind = np.unique(t.period[rows], return_inverse=True)
    if len(kinds) > _MAX_PERIODS:
        return int(weights.sum())
    total = 0
    for k, period in enumerate(kinds.tolist()):
        members = np.flatnonzero(kind == k)
        counts = t.offsets[rows[members] + 1] - t.offsets[rows[members]]
        owner = np.repeat(members, counts)
        at = np.repeat(t.offsets[rows[members]] - np.cumsum(counts) + counts, counts) + np.arange(len(owner))
        # A second of slack on both sides: no rounding can make this too small.
        begins, lengths = np.mod(t.start[rows[owner]] + t.begins[at] - 1.0, period), t.ends[at] - t.begins[at] + 2.0
        lasting = weights[owner][lengths >= period].sum()
        ends, few = np.mod(begins + lengths, period), np.where(lengths < period, weights[owner], 0)
        order = np.argsort(np.concatenate([begins, ends]), kind="stable")  # at one instant, arrivals count first
        around = few[ends < begins].sum() + np.cumsum(np.concatenate([few, -few])[order])
        total += int(lasting + around.max(initial=0))
    return total


def _common_period(periods: Floats) -> float:
    """After how long everything begins anew; infinite if that is not known."""
    kinds = np.unique(periods)
    if len(kinds) == 1:
        return float(kinds[0])
    grains = kinds * _GRAIN
    if len(kinds) > _MAX_PERIODS or kinds[-1] > 2.0**40 or (grains % 1).any():
        return math.inf
    common = math.lcm(*(int(g) for g in grains))
    return common / _GRAIN if common < 1 << 62 else math.inf


def earliest_by_polling(online: Callable[[float], Bools], seconds: float, *, repeats: float = math.inf) -> Earliest:
    """`earliest` of a source whose answers change at multiples of `seconds` only, by looking at each of them.

    `repeats`: after so long everything begins anew, so that a client that has not come by then never will.

    >>> shifts = earliest_by_polling(lambda time: np.array([time // 60 % 2 == 1, True]), 60.0, repeats=120.0)
    >>> shifts(np.array([True, True]), 2, 10.0, 1e6), shifts(np.array([True, False]), 2, 10.0, 1e6)
    (60.0, inf)
    """

    def earliest(among: Bools, n: int, start: float, until: float) -> float:
        if np.count_nonzero(among) < n:
            return math.inf
        time, step = start, math.floor(start / seconds)
        while time < min(until, start + repeats + seconds):
            if np.count_nonzero(online(time) & among) >= n:
                return time
            step += 1
            time = step * seconds
        return math.inf

    return earliest
