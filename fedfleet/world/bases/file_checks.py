"""Reading foreign files with care: every refusal names the file, the row and the reason."""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fedfleet.core.errors import BadInput, nearest_file
from fedfleet.core.fleet import DeviceTable, StateTable, take_devices, take_states, unshared_devices, unshared_states
from fedfleet.core.intervals import traces
from fedfleet.core.limits import LARGEST, SMALLEST
from fedfleet.core.records import Ints

Fleet = TypeVar("Fleet", DeviceTable, StateTable)
SLACK = 1e-6  # seconds by which intervals may seem to overlap: what is written and read again is rounded


def read_json(path: str) -> Any:
    """The content of a JSON file."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}{nearest_file(path)}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"{path} cannot be read as JSON: {error}") from None


def numbers(values: Any, where: str, *, positive: bool = False, signed: bool = False, length: int | None = None) -> list[float]:
    """A list of finite numbers: positive, not negative (the default) or any (`signed`)."""
    fine = isinstance(values, list) and values and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    if not fine or (length is not None and len(values) != length):
        raise BadInput(f"{where} must be a list of {length or 'at least one'} number(s), not {reprlib.repr(values)}")
    for v in values:
        beyond = not math.isfinite(v) if isinstance(v, float) else False
        if beyond or abs(v) > LARGEST or (v < SMALLEST if positive else v < 0 and not signed):
            kind = "positive" if positive else "finite" if signed else "finite and not negative"
            shown = v if isinstance(v, float) or abs(v) < LARGEST else "a huge number"
            raise BadInput(f"{where}: {shown} is not {kind}, or beyond {LARGEST:g}")
    return [float(v) for v in values]


def phases(ready: Any, start: float, end: float, where: str) -> list[tuple[float, float]]:
    """Sorted, joined phases of ready pairs [s, e], which cover s to e + 1; what reaches beyond the end is cut there."""
    if not isinstance(ready, list) or not ready:
        raise BadInput(f"{where}: it is never ready; leave such a client out")
    result: list[tuple[float, float]] = []
    for j, pair in enumerate(ready):
        low, high = numbers(pair, f"{where}: interval {j}", signed=True, length=2)
        if high < low:
            raise BadInput(f"{where}: interval {j} ends before it begins")
        if low < start or low >= end:
            raise BadInput(f"{where}: interval {j} begins outside start..end")
        result.append((low - start, min(high + 1, end) - start))
    return join_spans(result)


def disjoint_phases(ready: Any, start: float, end: float, where: str) -> list[tuple[float, float]]:
    """The same for files in our own format, in which intervals must not overlap and must end by the end."""
    result = phases(ready, start, end, where)
    late = [j for j, (_, high) in enumerate(ready) if high > end]
    if late:
        raise BadInput(f"{where}: interval {late[0]} ends after the state's own end {end:g}")
    order = sorted(range(len(ready)), key=lambda j: ready[j])
    for a, b in pairwise(order):
        if ready[b][0] < ready[a][1] + 1 - SLACK:  # [s, e] covers s to e + 1
            raise BadInput(f"{where}: intervals {a} and {b} overlap; [s, e] covers s to e + 1")
    return result


def check_ids(path: str, table: Fleet) -> Fleet:
    """The table, if rows of the same id are the same; sampled fleets repeat rows, but two things need two names."""
    devices = isinstance(table, DeviceTable)
    first, row_of_name = np.unique(table.ids, return_index=True, return_inverse=True)[1:]
    like = first[row_of_name]  # for each row the first one of its name
    if len(first) == len(like):
        return table
    first_table = take_devices(table, like) if devices else take_states(table, like)
    ours, theirs = _columns(table), _columns(first_table)
    unlike = np.zeros(len(table), np.bool_)
    for (values, offsets), (first_values, its_offsets) in zip(ours, theirs, strict=True):
        short = np.diff(offsets) != np.diff(its_offsets)
        unlike |= short
        if not short.any():
            differs = ~((values == first_values) | ((values != values) & (first_values != first_values)))
            unlike[np.repeat(np.arange(len(table)), np.diff(offsets))[differs]] = True
    if unlike.any():
        row = int(np.flatnonzero(unlike)[0])
        raise BadInput(
            f"{path}: row {row} has the id {str(table.ids[row])!r} of row {like[row]}, but their values differ; give one of "
            "them another id"
        )
    return table


def _columns(table: DeviceTable | StateTable) -> list[tuple[Any, Ints]]:
    """Every column flat, with the offsets of each client's entries."""
    if isinstance(table, DeviceTable):
        whole = unshared_devices(table)
        spans = [(whole.down, whole.down_offsets), (whole.up, whole.up_offsets)]
        plain = (whole.seconds_per_sample, whole.latency, whole.cores, whole.memory_mb, whole.seconds_per_batch)
    else:
        t = unshared_states(table).traces
        spans, plain = [(t.begins, t.offsets), (t.ends, t.offsets)], (t.start, t.period)
    n = len(table)
    return [*spans, *((c.reshape(-1), np.arange(n + 1) * (c.size // n)) for c in plain)]


def join_spans(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Half-open spans sorted, and joined where they touch or overlap; empty ones are left out."""
    result: list[tuple[float, float]] = []
    for low, high in sorted(s for s in spans if s[1] > s[0]):
        if result and low <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], high))
        else:
            result.append((low, high))
    return result


StateRow = tuple[str, float, float, list[tuple[float, float]]]


def state_table(rows: Iterable[StateRow]) -> StateTable:
    """A table from each row's id, start, period and half-open ready phases."""
    ids, starts, periods, spans = zip(*rows, strict=True)
    pairs = np.array([span for own in spans for span in own], np.float64).reshape(-1, 2)
    offsets = np.concatenate([[0], np.cumsum([len(s) for s in spans])]).astype(np.int64)
    columns = (np.array(starts, np.float64), np.array(periods, np.float64), offsets)
    return StateTable(np.array(ids, np.str_), traces(*columns, pairs[:, 0].copy(), pairs[:, 1].copy()))
