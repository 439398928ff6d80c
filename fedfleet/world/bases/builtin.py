"""The built-in base: devices and states drawn from distributions that we fitted to public traces; no trace is shipped.

builtin.json holds the fitted numbers, benchmarks/fit_builtin.py makes it, docs/explanation/builtin-base.md says how well
it fits. The same rows on every machine: each row is a function of its index and of a seed in that file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import DeviceTable, StateTable, device_table
from fedfleet.core.intervals import traces
from fedfleet.core.records import Floats, Ints
from fedfleet.core.rng import uniforms

DEVICES, STATES, _MOST = 200, 700, 100_000
_DAY = 86400.0
# Steps of additive sequences that fill [0, 1) evenly: 2^64 times the fractions of the golden ratio and of the roots of 2, 3, 7.
_STEPS = (0x9E3779B97F4A7C15, 0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0xA54FF53A5F1D36F1)


@dataclass(frozen=True, slots=True)
class Rings:
    """Each state as a ring of sessions and the gap after each, in whole seconds; sessions flat, `owner` says whose."""

    start: Floats
    period: Floats
    kind: Ints  # whose likings of hours, by the share of ready time
    owner: Ints
    place: Ints  # first, second, .. session of its owner
    lengths: Floats
    gaps: Floats


def devices(path: str) -> DeviceTable:
    """`builtin:` or `builtin:ROWS`: devices with download speeds like MobiPerf's; uploads are drawn from the same speeds."""
    return _devices(_rows(path, DEVICES))


def states(path: str) -> StateTable:
    """`builtin:` or `builtin:ROWS`: ready intervals like those of FLASH's phones (locked, on WiFi and charging)."""
    return _states(_rows(path, STATES))


@lru_cache(maxsize=4)  # every run of a study asks for them
def _devices(rows: int) -> DeviceTable:
    return draw_devices(load_parameters(), rows, load_parameters()["devices"]["seed"])


@lru_cache(maxsize=4)
def _states(rows: int) -> StateTable:
    return draw_states(load_parameters(), rows, load_parameters()["states"]["seed"])


@cache
def load_parameters() -> dict[str, Any]:
    """The shipped parameters."""
    return json.loads(Path(__file__).with_name("builtin.json").read_text(encoding="utf-8"))


def draw_devices(p: dict[str, Any], rows: int, seed: int) -> DeviceTable:
    """Devices from parameters: mean speed, spread given the mean, a list of measurements, seconds per sample."""
    own, levels = p["devices"], p["levels"]
    u = _even_draws(rows, seed, "builtin-device")
    keys = np.arange(rows, dtype=np.uint64)
    mean = np.interp(u[0], own["levels"], own["mean_kbps"])
    spread = _conditional_quantile(u[0], u[1], p["given_levels"], own["spread_given_mean"])
    lengths, shares = np.array(own["measurements"]).T
    count = lengths[_pick(uniforms(seed, "builtin-count", keys), shares)].astype(np.int64)
    owner, first = _spans(count)
    shape = uniforms(seed, "builtin-speed", keys[owner], np.arange(len(owner)) - first[owner])
    speed = np.exp(spread[owner] * np.interp(shape, p["shape_levels"], own["shape"]))
    speed *= (mean * count / np.add.reduceat(speed, first))[owner]
    whole = np.maximum(np.rint(speed), 1.0)
    down = [np.sort(span).tolist() for span in np.split(whole, first[1:])]
    seconds = np.round(np.interp(u[2], levels, own["seconds_per_sample"]), 4)
    return device_table([f"device-{i:04d}" for i in range(rows)], down, seconds)


def draw_states(p: dict[str, Any], rows: int, seed: int) -> StateTable:
    """States from parameters: rings, turned at random and ordered so that phones are ready at the hours at which they are."""
    ring = draw_rings(p, rows, seed)
    turn = np.floor(uniforms(seed, "builtin-turn", np.arange(rows, dtype=np.uint64)) * ring.period)
    lengths, begins = _order_sessions(ring, ring.start + turn, np.array(p["states"]["hours"]), seed)
    period = ring.period[ring.owner]
    begins = np.mod(begins - ring.start[ring.owner], period)
    ends = begins + lengths
    over = ends > period  # a session that runs over the end of its trace goes on at the beginning
    owner = np.concatenate([ring.owner, ring.owner[over]])
    begins = np.concatenate([begins, np.zeros(int(over.sum()))])
    ends = np.concatenate([np.minimum(ends, period), (ends - period)[over]])
    order = np.lexsort((begins, owner))
    offsets = np.searchsorted(owner[order], np.arange(rows + 1)).astype(np.int64)
    ids = np.array([f"state-{i:04d}" for i in range(rows)], np.str_)
    return StateTable(ids, traces(ring.start, ring.period, offsets, begins[order], ends[order]))


def draw_rings(p: dict[str, Any], rows: int, seed: int) -> Rings:
    """What each state is made of, before it is placed on the clock.

    The share of ready time comes first; sessions per day depend on it; the spreads of lengths and of gaps depend on both,
    through normal scores. Then lengths and gaps are scaled to fill exactly that share of the trace, and its rest.
    """
    own, levels, normal = p["states"], p["levels"], p["normal"]
    u = _even_draws(rows, seed, "builtin-state")
    keys = np.arange(rows, dtype=np.uint64)
    share = np.exp(np.interp(u[0], levels, own["log_share"]))
    log_rate = _conditional_quantile(u[0], u[1], p["given_levels"], own["log_rate_given_share"])
    every_days, every_start, shares = np.array(own["days_start_share"]).T
    cell = _pick(uniforms(seed, "builtin-when", keys), shares)
    hours = np.interp(uniforms(seed, "builtin-clock", keys), np.cumsum([0.0, *own["start_hours"]]), np.arange(25.0))
    start, days = every_start[cell] * _DAY + np.floor(hours * 3600.0), every_days[cell]
    period = days * _DAY
    count = np.exp(log_rate) * days + uniforms(seed, "builtin-sessions", keys)
    owner, first = _spans(np.maximum(count.astype(np.int64), 1))
    place = np.arange(len(owner)) - first[owner]
    scores = [np.interp(u[0], levels, normal), np.interp(log_rate, own["log_rate"], normal), np.ones(rows)]
    filled: list[Floats] = []
    for i, (name, total) in enumerate((("length", share * period), ("gap", (1.0 - share) * period))):
        *weights, rest = own[name]["weights"]
        known = np.sum([w * z for w, z in zip(weights, scores, strict=True)], axis=0)
        scores.append(known + rest * np.interp(u[2 + i], levels, normal))
        spread = np.interp(scores[-1], normal, own[name]["spread"])
        # Even steps within a state, too: its sessions are as mixed as it says, and the long ones lie apart.
        even = np.mod(uniforms(seed, f"builtin-{name}", keys)[owner] + place * (_STEPS[i] * 2.0**-64), 1.0)
        shape = np.exp(spread[owner] * np.interp(even, p["shape_levels"], own[name]["shape"]))
        filled.append(_fill(shape, total, owner, first, own[name]["ceiling"], own["room"]))
    lengths, gaps = filled
    # Rounding left some seconds over or short: the longest gap takes them.
    longest = np.flatnonzero(gaps == np.maximum.reduceat(gaps, first)[owner])
    gaps[longest[np.unique(owner[longest], return_index=True)[1]]] += period - np.add.reduceat(lengths + gaps, first)
    return Rings(start, period, np.searchsorted(own["hour_kinds"], u[0], side="right"), owner, place, lengths, gaps)


def _fill(x: Floats, total: Floats, owner: Ints, first: Ints, ceiling: float, room: float) -> Floats:
    """Positive numbers scaled to whole seconds with these sums, and bent below a ceiling (or `room` means), as nights end them."""
    most = np.maximum(ceiling, room * total / np.bincount(owner))[owner]
    x = x * (total / np.add.reduceat(x, first))[owner]
    for _ in range(12):
        x = x * (total / np.add.reduceat(x * most / (x + most), first))[owner]
    return np.maximum(np.rint(x * most / (x + most)), 1.0)


def _order_sessions(ring: Rings, start: Floats, liking: Floats, seed: int) -> tuple[Floats, Floats]:
    """Sessions in an order in which, of the next two, the longer goes first at liked hours; of gaps, the shorter one."""
    rows, at = len(start), (ring.place, ring.owner)
    keys, chance = np.arange(rows, dtype=np.uint64), 1.0 / (1.0 + np.exp(-liking))
    wide, begins = np.zeros((2, int(ring.place.max()) + 2, rows)), np.zeros((int(ring.place.max()) + 1, rows))
    wide[:, *at] = ring.lengths, ring.gaps
    now, waits = start, wide[:, 0].copy()
    for j in range(len(begins)):
        begins[j] = now
        for part in (0, 1):
            other, waiting = wide[part, j + 1], waits[part]
            here = chance[ring.kind, (now % _DAY // 3600.0).astype(np.int64)]
            liked = uniforms(seed, "builtin-order", keys, j, part) < here
            # Behind the last one there is nothing (0), and what waits must go.
            goes = np.where((other == 0) | ((liked == (part == 0)) == (waiting > other)), waiting, other)
            wide[part, j], waits[part] = goes, waiting + other - goes
            now = now + goes
    return wide[0, *at], begins[at]


def _rows(path: str, default: int) -> int:
    if not path:
        return default
    if not path.isascii() or not path.isdigit() or not 1 <= int(path) <= _MOST:
        raise BadInput(f"builtin:{path}: a number of rows from 1 to {_MOST} is expected, or nothing for {default}")
    return int(path)


def _even_draws(rows: int, seed: int, label: str) -> Floats:
    """Four numbers in [0, 1) per row, at shift + i steps: they fill the cube more evenly than chance, as the fit's quantiles do."""
    shift = (uniforms(seed, label, np.arange(4, dtype=np.uint64)) * 2.0**53).astype(np.uint64) << np.uint64(11)
    with np.errstate(over="ignore"):
        at = shift[:, None] + np.arange(rows, dtype=np.uint64) * np.array(_STEPS, np.uint64)[:, None]
    return (at >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _conditional_quantile(x: Floats, u: Floats, levels: list[float], table: list[list[float]]) -> Floats:
    """The u-quantile given x in [0, 1): row b of the table holds the quantiles of the b-th of equal bins of x."""
    rows = np.array(table)
    bins = np.clip(x * len(rows) - 0.5, 0.0, len(rows) - 1.0)
    low = np.minimum(bins.astype(np.int64), len(rows) - 2)
    quantiles = np.stack([np.interp(u, levels, row) for row in rows])
    each = np.arange(len(x))
    return quantiles[low, each] * (low + 1 - bins) + quantiles[low + 1, each] * (bins - low)


def _pick(u: Floats, shares: Floats) -> Ints:
    """An index with these chances."""
    ahead = np.cumsum(shares)
    return np.minimum(np.searchsorted(ahead / ahead[-1], u, side="right"), len(shares) - 1)


def _spans(count: Ints) -> tuple[Ints, Ints]:
    """The owner of each entry, and where each owner's entries begin."""
    return np.repeat(np.arange(len(count)), count), np.cumsum(count) - count
