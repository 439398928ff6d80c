"""What decides a -T metric: waiting has no upper limit, so that one device, one state or a floor under speeds can be all of it.

Each suspect is tried: the metric is simulated again, on the same seeds, with the fleet's median in its place. Only if less than
half of the metric is left then, a note says so. R metrics are bounded by the deadline and need none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import DeviceTable, StateTable
from fedfleet.core.records import Floats, Ints
from fedfleet.core.shared_rows import Names, rows_of_all
from fedfleet.measure.montecarlo.metrics import MetricValue, measure, parts_of
from fedfleet.measure.montecarlo.settings import Settings

_HALF = 0.5
_SEEDS = 3  # the number of seeds on which suspects are tried
_HARMLESS = 0.25  # a device whose trips take a smaller share of the time, end to end, cannot be half of it

MetricOf = Callable[[DeviceTable | None, StateTable | None], float]  # the metric of a changed fleet


@dataclass(frozen=True, slots=True)
class Suspect:
    """The device or state with the largest burden: its name, how many clients have it, and the burden of all of them together.

    `rows` are those of all clients with the median client's in its place.
    """

    name: str
    clients: int
    burden: float
    rows: Ints


def notes(
    name: str, settings: Settings, devices: DeviceTable | None, states: StateTable | None, measured: MetricValue
) -> list[str]:
    """One sentence for each single device, single state or floor that decides this metric."""
    if name.endswith("-R"):
        return []
    d, s = parts_of(name, devices, states)
    seeds = min(len(measured.values), _SEEDS)
    before = float(measured.values[:seeds].mean())

    def metric_of(d: DeviceTable | None, s: StateTable | None) -> float:
        try:
            return measure(name, settings, d, s, seeds=seeds).value
        except BadInput:  # nobody would ever be ready
            return np.inf

    result: list[tuple[str, float]] = []
    if d is not None:
        result += _speed_floor(d, s, metric_of)
        seconds = before * settings.trips / settings.k * settings.t_break_asked
        rows = rows_of_all(d.row_index, len(d.ids)).astype(np.int64)
        worst = suspect(d.ids, rows, trip_seconds(settings, d))
        spent = worst.burden / len(rows) * settings.trips  # by its own trips, one after the other; with states they take longer
        if s is not None or spent >= _HARMLESS * seconds:
            changed = replace(d, row_index=worst.rows.astype(np.int32))
            result.append((_suspect_text("device", worst, len(rows)), metric_of(changed, s)))
    if s is not None:
        cost = settings.deadline if d is None else float(np.median(trip_seconds(settings, d)))
        rows = rows_of_all(s.traces.row_index, len(s.ids)).astype(np.int64)
        worst = suspect(s.ids, rows, waiting(s, cost))
        changed = replace(s, traces=replace(s.traces, row_index=worst.rows.astype(np.int32)))
        result.append((_suspect_text("state", worst, len(rows)), metric_of(d, changed)))
    return [
        f"{what} decides {name}: with the median in its place it would be {after:.4g} instead of {before:.4g}"
        for what, after in result
        if after < _HALF * before
    ]


def _speed_floor(d: DeviceTable, s: StateTable | None, metric_of: MetricOf) -> list[tuple[str, float]]:
    """The lowest speed, where several devices have it; what no floor was put under seldom agrees to the last digit."""
    speeds = np.concatenate([d.down, d.up])
    lowest, middle = float(speeds.min()), float(np.median(speeds))
    owner = np.repeat(np.arange(len(d.ids)), np.diff(d.down_offsets))
    devices = len(np.unique(d.ids[owner[d.down == lowest]]))
    if devices < 2 or lowest == middle:
        return []
    lifted = replace(d, down=np.where(d.down == lowest, middle, d.down), up=np.where(d.up == lowest, middle, d.up))
    share = 100 * float((speeds == lowest).mean())
    text = f"the floor under speeds, {lowest:g} kbit/s, at which {share:.2g} % of them lie ({devices} devices),"
    return [(text, metric_of(lifted, s))]


def suspect(names: Names, rows: Ints, burden: Floats) -> Suspect:
    """Who weighs most: rows of equal name are one device or state, and what its clients carry is added up."""
    group_of_row = np.unique(names, return_inverse=True)[1]
    groups, row_burden = group_of_row[rows], burden[rows]
    total = np.bincount(groups, weights=row_burden)
    worst = int(np.argmax(total))
    selected = groups == worst
    median = rows[np.argsort(row_burden, kind="stable")[len(rows) // 2]]
    name = str(names[int(np.flatnonzero(group_of_row == worst)[0])])
    return Suspect(name, int(selected.sum()), float(total[worst]), np.where(selected, median, rows))


def trip_seconds(settings: Settings, d: DeviceTable) -> Floats:
    """How long a trip takes on average on each row's device, if it is never interrupted."""
    slowness = np.add.reduceat(8.0 / d.down, d.down_offsets[:-1]) / np.diff(d.down_offsets)
    counts = np.diff(d.up_offsets)
    sums = np.diff(np.concatenate([[0.0], np.cumsum(8.0 / d.up)])[d.up_offsets])
    up = np.where(counts > 0, sums / np.maximum(counts, 1), slowness)
    return settings.size_kb * (slowness + up) + settings.compute_seconds(1.0) * d.seconds_per_sample


def waiting(s: StateTable, seconds: float) -> Floats:
    """How much waiting each row's state causes: sum_i min(seconds, length_i) gap_i / period over its sessions.

    Work of that many seconds that begins near the end of a session waits for the next one.
    """
    t = s.traces
    owner = np.repeat(np.arange(len(t.start)), np.diff(t.offsets))
    last = t.offsets[1:] - 1
    following = np.roll(t.begins, -1)
    following[last] = t.begins[t.offsets[:-1]] + t.period
    waits = np.minimum(t.ends - t.begins, seconds) * (following - t.ends)
    return np.bincount(owner, weights=waits, minlength=len(t.start)) / t.period


def _suspect_text(kind: str, result: Suspect, clients: int) -> str:
    return f"one {kind}, {result.name} ({result.clients} of {clients} clients),"
