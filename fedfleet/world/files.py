"""The canonical files: `fedfleet/devices@1` and `fedfleet/states@1`, read with checks that name the row."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.intervals import Traces, traces
from fedfleet.core.records import Floats, Ints


@dataclass(frozen=True, slots=True)
class Devices:
    """Devices as columns: each row owns a span of measured speeds, in kbit/s; an empty span of `up` means: draw from `down`."""

    ids: list[str]
    down: Floats
    down_offsets: Ints
    up: Floats
    up_offsets: Ints
    seconds_per_sample: Floats
    latency: Floats  # seconds, [n, 2]


def read_devices(path: str) -> Devices:
    """Read a devices file; malformed rows are refused by id."""
    rows = _rows(path, "fedfleet/devices@1", "devices")
    ids, down, up, per_sample, latency = [], [], [], [], []
    for i, row in enumerate(rows):
        name = _name(row, i, path)
        ids.append(name)
        down.append(_numbers(row.get("down_kbps"), f"{path}: device {name}: down_kbps", positive=True))
        up.append(
            []
            if row.get("up_kbps") is None
            else _numbers(row["up_kbps"], f"{path}: device {name}: up_kbps", positive=True)
        )
        per_sample.append(_numbers([row.get("seconds_per_sample")], f"{path}: device {name}: seconds_per_sample")[0])
        span = _numbers(row.get("latency_ms") or [0, 0], f"{path}: device {name}: latency_ms")
        if len(span) != 2 or span[0] > span[1]:
            raise BadInput(f"{path}: device {name}: latency_ms must be [low, high]")
        latency.append([s / 1000.0 for s in span])
    down_flat, down_offsets = _flat(down)
    up_flat, up_offsets = _flat(up)
    return Devices(ids, down_flat, down_offsets, up_flat, up_offsets, np.array(per_sample), np.array(latency))


@dataclass(frozen=True, slots=True)
class States:
    """Reachability as columns: ids and indexed ready intervals."""

    ids: list[str]
    traces: Traces


def read_states(path: str) -> States:
    """Read a states file: [s, e] covers s to e + 1, seconds are absolute, the trace repeats with period end - start."""
    rows = _rows(path, "fedfleet/states@1", "states")
    ids: list[str] = []
    starts, periods, spans = [], [], []
    for i, row in enumerate(rows):
        name = _name(row, i, path)
        where = f"{path}: state {name}"
        start, end = _numbers([row.get("start"), row.get("end")], f"{where}: start and end", signed=True)
        if end <= start:
            raise BadInput(f"{where}: end {end} is not after start {start}")
        ids.append(name)
        starts.append(start)
        periods.append(end - start)
        spans.append(_phases(row.get("ready"), start, end, where))
    flat = np.array([span for phases in spans for span in phases]).reshape(-1, 2)
    offsets = np.concatenate([[0], np.cumsum([len(s) for s in spans])]).astype(np.int64)
    return States(ids, traces(np.array(starts), np.array(periods), offsets, flat[:, 0].copy(), flat[:, 1].copy()))


def _phases(ready: Any, start: float, end: float, where: str) -> list[tuple[float, float]]:
    """Sorted, joined phases of the intervals of one state; what reaches beyond the end is cut there."""
    if not isinstance(ready, list) or not ready:
        raise BadInput(f"{where}: it is never ready; leave such a client out")
    found: list[tuple[float, float]] = []
    for j, pair in enumerate(ready):
        low, high = _numbers(pair, f"{where}: interval {j}", signed=True, length=2)
        if high < low:
            raise BadInput(f"{where}: interval {j} ends before it begins")
        if low < start or low >= end:
            raise BadInput(f"{where}: interval {j} begins outside start..end")
        found.append((low - start, min(high + 1, end) - start))
    joined: list[tuple[float, float]] = []
    for low, high in sorted(found):
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return joined


def _rows(path: str, form: str, field: str) -> list[Any]:
    try:
        loaded = json.loads(Path(path).read_text())
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}") from None
    except (OSError, ValueError) as wrong:
        raise BadInput(f"{path} cannot be read as JSON: {wrong}") from None
    if not isinstance(loaded, dict) or loaded.get("format") != form:
        raise BadInput(f'{path} is not a {field} file: it must say "format": "{form}"')
    rows = loaded.get(field)
    if not isinstance(rows, list) or not rows:
        raise BadInput(f"{path}: the list {field!r} is missing or empty")
    return rows


def _name(row: Any, i: int, path: str) -> str:
    if not isinstance(row, dict) or not isinstance(row.get("id"), str):
        raise BadInput(f"{path}: row {i} has no id; each row is an object with a string id")
    return row["id"]


def _numbers(
    values: Any, where: str, *, positive: bool = False, signed: bool = False, length: int | None = None
) -> list[float]:
    fine = (
        isinstance(values, list)
        and values
        and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    )
    if not fine or (length is not None and len(values) != length):
        raise BadInput(f"{where} must be a list of {length or 'at least one'} number(s), not {values!r}")
    for v in values:
        if not math.isfinite(v) or (v <= 0 if positive else v < 0 and not signed):
            kind = "positive" if positive else "finite" if signed else "finite and not negative"
            raise BadInput(f"{where}: {v} is not {kind}")
    return [float(v) for v in values]


def _flat(spans: list[list[float]]) -> tuple[Floats, Ints]:
    offsets = np.concatenate([[0], np.cumsum([len(s) for s in spans])]).astype(np.int64)
    return np.array([v for span in spans for v in span], np.float64), offsets
