# pyright: basic
"""The fast simulation: numba on interval arithmetic, with a ready set that changes only when a client's state does.

Each client sits in a ring of time buckets at the moment of its next change, so that a round costs what happens in it,
not the number of clients. Random numbers are one splitmix64 sequence, drawn in an order that `literal` repeats.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
_RING = 1 << 14  # buckets; what lies further ahead waits in the last one and is looked at again
_WIDTH = 20.0  # seconds per bucket, about a round


@njit(cache=True, nogil=True, inline="always")
def _scramble(z):
    z = (z ^ (z >> _S30)) * _M1
    z = (z ^ (z >> _S27)) * _M2
    return z ^ (z >> _S31)


@njit(cache=True, nogil=True, inline="always")
def _random_below(z, n):
    return np.int64(((z >> _S32) * np.uint64(n)) >> _S32)


@njit(cache=True, nogil=True)
def _locate(c, trace, te, start, period, offsets, begins, ends, base, index, ready, change):
    """Put client c's cursor to where its trace is at time te."""
    lap = np.floor((te - start[trace]) / period[trace])
    base[c] = start[trace] + lap * period[trace]
    phase = te - base[c]
    low, high = offsets[trace], offsets[trace + 1]
    a, b = low, high
    while a < b:
        middle = (a + b) >> 1
        if ends[middle] <= phase:
            a = middle + 1
        else:
            b = middle
    if a == high:
        a = low
        base[c] += period[trace]
    index[c] = a
    ready[c] = base[c] + begins[a] <= te
    change[c] = base[c] + (ends[a] if ready[c] else begins[a])


@njit(cache=True, nogil=True, inline="always")
def _enqueue(c, at, change, head, link):
    """Put client c into the bucket of its next change, counted from bucket `at`."""
    bucket = np.int64(np.floor(change[c] / _WIDTH))
    if bucket < at:
        bucket = at
    if bucket > at + _RING - 1:
        bucket = at + _RING - 1
    slot = bucket % _RING
    link[c] = head[slot]
    head[slot] = c


@njit(cache=True, nogil=True)
def _advance(c, trace, te, start, period, offsets, begins, ends, base, index, ready, change):
    """Let client c's trace run on to time te, change by change; after a long sleep look the place up instead."""
    for _ in range(4):
        if ready[c]:
            ready[c] = 0
            index[c] += 1
            if index[c] == offsets[trace + 1]:
                index[c] = offsets[trace]
                base[c] += period[trace]
            change[c] = base[c] + begins[index[c]]
        else:
            ready[c] = 1
            change[c] = base[c] + ends[index[c]]
        if change[c] > te:
            return
    _locate(c, trace, te, start, period, offsets, begins, ends, base, index, ready, change)


@njit(cache=True, nogil=True)
def _seconds_until_done(c, trace, te, need, limit, period, offsets, begins, ends, base, index, total):
    """Seconds until a ready client has been ready for `need` seconds; infinite as soon as that must exceed `limit`."""
    low, high, i, lap = offsets[trace], offsets[trace + 1], index[c], base[c]
    room = lap + ends[i] - te
    if need <= room:
        return need
    left = need - room
    jumped = False
    while True:
        i += 1
        if i == high:
            i = low
            lap += period[trace]
            if not jumped and left > total[trace]:  # whole laps at once
                laps = np.ceil(left / total[trace]) - 1.0
                left -= laps * total[trace]
                lap += laps * period[trace]
                jumped = True
        opens = lap + begins[i]
        if opens - te > limit:
            return np.inf
        if left <= ends[i] - begins[i]:
            return opens + left - te
        left -= ends[i] - begins[i]


@njit(cache=True, nogil=True)
def simulate(
    seed, k, by_deadline, limit, quantile, rounds, trips, most_empty, t_break, released,
    n, has_devices, size, device_of, down, down_offsets, up, up_offsets, compute,
    has_states, t_cost, trace_of, start, period, offsets, begins, ends, total, stop,
):  # fmt: skip
    """One simulated training: successes per client and the virtual time at the end.

    Client c has the device device_of[c] and follows the trace trace_of[c]. The time is infinite if trips are counted and no client
    is ready for more than `most_empty` rounds in a row. Whoever sets stop[0] ends it at once, with whatever it has.
    """
    successes = np.zeros(n, np.int64)
    chosen = np.empty(max(k, 1), np.int64)
    pool = np.empty(n, np.int64)
    mark = np.full(n, -1, np.int64)
    end_times = np.empty(max(k, 1), np.float64)
    base, change = np.zeros(n), np.zeros(n)
    index, ready = np.zeros(n, np.int64), np.ones(n, np.uint8)
    members, place = np.empty(n, np.int64), np.full(n, -1, np.int64)
    count = n
    head, link = np.full(_RING, -1, np.int64), np.full(n, -1, np.int64)
    at = np.int64(0)
    if has_states:
        count = 0
        for c in range(n):
            _locate(c, trace_of[c], 0.0, start, period, offsets, begins, ends, base, index, ready, change)
            if ready[c]:
                place[c] = count
                members[count] = c
                count += 1
            _enqueue(c, at, change, head, link)
    z = _scramble(np.uint64(seed) + _GOLDEN)
    t, done_rounds, done_trips, empty = 0.0, 0, 0, 0
    while done_rounds < rounds if by_deadline else done_trips < trips:
        if stop[0]:
            break
        t += t_break
        if has_states:
            early, late = (np.floor(t), np.ceil(t)) if released else (t, t)
            last = np.int64(np.floor(late / _WIDTH))
            at = max(at, last - _RING + 1)  # once around the ring meets everyone, however long the last round took
            while True:
                slot = at % _RING
                c = head[slot]
                head[slot] = -1
                while c >= 0:
                    following = link[c]
                    te = early if t >= start[trace_of[c]] else late
                    if change[c] <= te:
                        _advance(c, trace_of[c], te, start, period, offsets, begins, ends, base, index, ready, change)
                        if ready[c] and place[c] < 0:
                            place[c] = count
                            members[count] = c
                            count += 1
                        elif not ready[c] and place[c] >= 0:
                            count -= 1
                            other = members[count]
                            members[place[c]] = other
                            place[other] = place[c]
                            place[c] = -1
                    _enqueue(c, at + 1 if at < last else at, change, head, link)
                    c = following
                if at >= last:
                    break
                at += 1
        done_rounds += 1
        if count == 0:
            empty += 1
            if not by_deadline and empty > most_empty:
                return successes, np.inf
            continue
        empty = 0
        # Who: everyone if there are not enough, a shuffle of the ready ones if there are few, else drawing until found.
        m = 0
        if count < 2 * k:
            if not has_states:
                for c in range(n):
                    pool[c] = c
            elif n <= 16 * count:
                for c in range(n):
                    if ready[c]:
                        pool[m] = c
                        m += 1
            else:
                pool[:count] = np.sort(members[:count])
            m = min(k, count)
            if count <= k:
                chosen[:m] = pool[:m]
            else:
                left = count
                for j in range(m):
                    z += _GOLDEN
                    i = _random_below(_scramble(z), left)
                    chosen[j] = pool[i]
                    left -= 1
                    pool[i] = pool[left]
        else:
            while m < k:
                z += _GOLDEN
                c = _random_below(_scramble(z), n)
                if ready[c] and mark[c] != done_rounds:
                    mark[c] = done_rounds
                    chosen[m] = c
                    m += 1
        longest = 0.0
        for j in range(m):
            c = chosen[j]
            cost = t_cost
            if has_devices:
                d = device_of[c]
                z += _GOLDEN
                i = _random_below(_scramble(z), down_offsets[d + 1] - down_offsets[d])
                z += _GOLDEN
                if up_offsets[d + 1] > up_offsets[d]:
                    u = up[up_offsets[d] + _random_below(_scramble(z), up_offsets[d + 1] - up_offsets[d])]
                else:
                    u = down[down_offsets[d] + _random_below(_scramble(z), down_offsets[d + 1] - down_offsets[d])]
                cost = size / (down[down_offsets[d] + i] / 8.0) + size / (u / 8.0) + compute[d]
            elapsed = cost
            if has_states:
                need = np.ceil(cost) if released else cost
                te = t
                if released:
                    te = np.floor(t) if t >= start[trace_of[c]] else np.ceil(t)
                elapsed = 0.0
                if need > 0:
                    s = trace_of[c]
                    elapsed = _seconds_until_done(c, s, te, need, limit, period, offsets, begins, ends, base, index, total)
            if by_deadline:
                if elapsed <= limit:
                    successes[c] += 1
                    longest = max(longest, elapsed)
                else:
                    longest = limit
            else:
                end_times[j] = t + elapsed
        if by_deadline:
            t += longest
        else:
            t = _quantile(end_times[:m], quantile)
        done_trips += m
    return successes, t


@njit(cache=True, nogil=True)
def _quantile(values, q):
    """The q-quantile with linear interpolation."""
    ordered = np.sort(values)
    place = (len(ordered) - 1) * q
    low = int(np.floor(place))
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
