"""Reading foreign files with care: every refusal names the file, the row and the reason."""

from __future__ import annotations

import json
import math
import reprlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import StateTable
from fedfleet.core.intervals import traces


def read_json(path: str) -> Any:
    """The content of a JSON file."""
    try:
        return json.loads(Path(path).read_text())
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}") from None
    except (OSError, ValueError) as wrong:
        raise BadInput(f"{path} cannot be read as JSON: {wrong}") from None


def numbers(
    values: Any, where: str, *, positive: bool = False, signed: bool = False, length: int | None = None
) -> list[float]:
    """A list of finite numbers: positive, not negative (the default) or any (`signed`)."""
    fine = (
        isinstance(values, list)
        and values
        and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    )
    if not fine or (length is not None and len(values) != length):
        raise BadInput(f"{where} must be a list of {length or 'at least one'} number(s), not {reprlib.repr(values)}")
    for v in values:
        if abs(v) > sys.float_info.max or not math.isfinite(v) or (v <= 0 if positive else v < 0 and not signed):
            kind = "positive" if positive else "finite" if signed else "finite and not negative"
            raise BadInput(f"{where}: {v} is not {kind}")
    return [float(v) for v in values]


def phases(ready: Any, start: float, end: float, where: str) -> list[tuple[float, float]]:
    """Sorted, joined phases of ready pairs [s, e], which cover s to e + 1; what reaches beyond the end is cut there."""
    if not isinstance(ready, list) or not ready:
        raise BadInput(f"{where}: it is never ready; leave such a client out")
    found: list[tuple[float, float]] = []
    for j, pair in enumerate(ready):
        low, high = numbers(pair, f"{where}: interval {j}", signed=True, length=2)
        if high < low:
            raise BadInput(f"{where}: interval {j} ends before it begins")
        if low < start or low >= end:
            raise BadInput(f"{where}: interval {j} begins outside start..end")
        found.append((low - start, min(high + 1, end) - start))
    return joined(found)


def joined(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Half-open spans sorted, and joined where they touch or overlap; empty ones are left out."""
    found: list[tuple[float, float]] = []
    for low, high in sorted(s for s in spans if s[1] > s[0]):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found


def state_table(
    ids: list[str], starts: list[float], periods: list[float], spans: list[list[tuple[float, float]]]
) -> StateTable:
    """A table from each row's start, period and half-open ready phases."""
    pairs = np.array([span for own in spans for span in own], np.float64).reshape(-1, 2)
    offsets = np.concatenate([[0], np.cumsum([len(s) for s in spans])]).astype(np.int64)
    columns = (np.array(starts, np.float64), np.array(periods, np.float64), offsets)
    return StateTable(np.array(ids, np.str_), traces(*columns, pairs[:, 0].copy(), pairs[:, 1].copy()))
