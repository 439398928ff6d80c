"""The canonical files as .npz, for large fleets: every array is checked in whole, and what is wrong is named by its row."""

from __future__ import annotations

import zipfile
import zlib
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput, suggest_name
from fedfleet.core.fleet import DeviceTable, StateTable
from fedfleet.core.intervals import traces
from fedfleet.core.limits import LARGEST, SMALLEST
from fedfleet.core.records import Floats, Ints
from fedfleet.world.bases.file_checks import SLACK, check_ids

DEVICES, STATES = "fedfleet/devices@1", "fedfleet/states@1"
_DEVICES = ("down_kbps", "down_kbps_offsets", "up_kbps", "up_kbps_offsets", "seconds_per_sample")
_STATES = ("start", "end", "ready", "ready_offsets")


def devices_npz(path: str) -> DeviceTable:
    """Read a devices file."""
    arrays = _load_npz(path, DEVICES, _DEVICES, ("seconds_per_batch", "latency_ms", "cores", "memory_mb"))
    ids = _ids(path, arrays)
    n = len(ids)
    down, up = (_column(path, arrays, name, (-1,)) for name in ("down_kbps", "up_kbps"))
    down_offsets = _offsets(path, arrays, "down_kbps_offsets", n, len(down))
    up_offsets = _offsets(path, arrays, "up_kbps_offsets", n, len(up))
    arrays = {"seconds_per_batch": np.zeros(n), "latency_ms": np.zeros((n, 2)), **arrays}
    per_sample, per_batch = (_column(path, arrays, name, (n,)) for name in ("seconds_per_sample", "seconds_per_batch"))
    latency = _column(path, arrays, "latency_ms", (n, 2)) / 1000.0
    for values, offsets in ((down, down_offsets), (up, up_offsets)):
        wrong = ~((values >= SMALLEST) & (values <= LARGEST))
        _refuse(path, "device", ids, _any_in_span(wrong, offsets), "a speed is not positive and finite")
    _refuse(path, "device", ids, np.diff(down_offsets) == 0, "it has no down_kbps")
    for name, column in (("seconds_per_sample", per_sample), ("seconds_per_batch", per_batch)):
        wrong = ~((column >= 0) & (column <= LARGEST))
        _refuse(path, "device", ids, wrong, f"{name} is negative or not finite")
    wrong = ~((latency[:, 0] >= 0) & (latency[:, 0] <= latency[:, 1]) & (latency[:, 1] <= LARGEST))
    _refuse(path, "device", ids, wrong, "latency_ms must be [low, high]")
    unknown = np.full(n, np.nan)
    cores, memory = (_column(path, {key: unknown, **arrays}, key, (n,)) for key in ("cores", "memory_mb"))
    for name, column in (("cores", cores), ("memory_mb", memory)):
        _refuse(path, "device", ids, (column <= 0) | np.isinf(column), f"{name} is not positive and finite")
    table = DeviceTable(ids, down, down_offsets, up, up_offsets, per_sample, latency, cores, memory, per_batch)
    return check_ids(path, table)


def states_npz(path: str) -> StateTable:
    """Read a states file."""
    arrays = _load_npz(path, STATES, _STATES)
    ids = _ids(path, arrays)
    n, ready = len(ids), _column(path, arrays, "ready", (-1, 2))
    start, end = (_column(path, arrays, name, (n,)) for name in ("start", "end"))
    offsets = _offsets(path, arrays, "ready_offsets", n, len(ready))
    owner = np.repeat(np.arange(n), np.diff(offsets))
    wrong = ~((np.abs(start) <= LARGEST) & (end <= LARGEST) & (end > start))
    _refuse(path, "state", ids, wrong, "its end is not after its start, or one of them is not finite")
    _refuse(path, "state", ids, np.diff(offsets) == 0, "it is never ready; leave such a client out")
    begins = ready[:, 0] - start[owner]
    ends = np.minimum(ready[:, 1] + 1.0, end[owner]) - start[owner]
    wrong = ~((ready[:, 1] >= ready[:, 0]) & (begins >= 0) & (ready[:, 0] < end[owner]) & (ready[:, 1] <= end[owner]))
    follows = owner[1:] == owner[:-1]
    wrong[1:] |= follows & (begins[1:] < ends[:-1] - SLACK)
    why = "an interval is empty, outside, or not after the one before"
    _refuse(path, "state", ids, _any_in_span(wrong, offsets), why)
    begins[1:] = np.where(follows, np.maximum(begins[1:], ends[:-1]), begins[1:])
    _refuse(path, "state", ids, _any_in_span(~(ends > begins), offsets), why)
    return check_ids(path, StateTable(ids, traces(start, end - start, offsets, begins, ends)))


def _load_npz(path: str, form: str, names: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as file:
            result = {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}") from None
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise BadInput(f"{path} cannot be read as .npz: {error}") from None
    known = ("format", "id", *names, *optional)
    missing = [name for name in ("format", "id", *names) if name not in result]
    if missing:
        raise BadInput(f"{path}: the array {missing[0]!r} is missing")
    for name in result:
        if name not in known:
            raise BadInput(f"{path} has an unknown array {name!r}{suggest_name(name, known)}")
    if str(result["format"]) != form:
        raise BadInput(f"{path} says format {str(result['format'])[:60]}, not {form}")
    return result


def _ids(path: str, arrays: dict[str, Any]) -> Any:
    ids = arrays["id"]
    if ids.ndim != 1 or ids.dtype.kind not in "UiuS" or not len(ids):
        raise BadInput(f"{path}: id must be one row of names with at least one entry, not {ids.dtype} of {ids.shape}")
    try:
        return ids.astype(np.str_)
    except UnicodeDecodeError:
        raise BadInput(f"{path}: id must hold names as text") from None


def _column(path: str, arrays: dict[str, Any], name: str, shape: tuple[int, ...]) -> Floats:
    """An array of numbers of this shape; -1 stands for any length."""
    values = arrays[name]
    fits = values.ndim == len(shape) and all(w in (-1, v) for v, w in zip(values.shape, shape, strict=True))
    if not fits or values.dtype.kind not in "fiu":
        wanted = "pairs" if len(shape) == 2 else "entries"
        count = "" if shape[0] == -1 else f"{shape[0]} "
        raise BadInput(f"{path}: {name} must have {count}{wanted}, all numbers; it is {values.dtype} of {values.shape}")
    return values.astype(np.float64)


def _offsets(path: str, arrays: dict[str, Any], name: str, n: int, length: int) -> Ints:
    offsets = arrays[name]
    fine = offsets.shape == (n + 1,) and offsets.dtype.kind in "iu"
    if not fine or offsets[0] != 0 or offsets[-1] != length or (offsets[1:] < offsets[:-1]).any():
        raise BadInput(f"{path}: {name} must hold {n + 1} numbers that rise from 0 to {length}")
    return offsets.astype(np.int64)


def _refuse(path: str, what: str, ids: Any, wrong: Any, why: str) -> None:
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise BadInput(f"{path}: row {row}, {what} {ids[row]}: {why}")


def _any_in_span(wrong: Any, offsets: Any) -> Any:
    """For each row: is anything wrong in its span?"""
    return np.diff(np.concatenate([[0], np.cumsum(wrong)])[offsets]) > 0
