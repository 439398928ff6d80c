"""The canonical files `fedfleet/devices@1` and `fedfleet/states@1`, read and written: JSON, .csv or, for large fleets, .npz."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput, nearest_file, suggest_name
from fedfleet.core.fleet import DeviceTable, StateTable, device_table, unshared_devices, unshared_states
from fedfleet.core.intervals import traces
from fedfleet.core.limits import LARGEST, SMALLEST
from fedfleet.core.memory_limit import check_memory
from fedfleet.core.records import Floats, Ints
from fedfleet.world.bases.csv_files import device_rows, is_sheet, state_rows, write_device_sheet, write_state_sheet
from fedfleet.world.bases.file_checks import SLACK, StateRow, check_ids, disjoint_phases, numbers, read_json, state_table

# ---- .npz files, for large fleets: every array is checked in whole, and an error names its row --------------------

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
        raise BadInput(f"there is no file {path}{nearest_file(path)}") from None
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


# ---- JSON and .csv files ------------------------------------------------------------------------------------------

_JSON_BYTES, _FEWER = 100, "draw fewer clients"  # a number takes so much on its way into text
STATE_KEYS = ("id", "start", "end", "ready")
DEVICE_KEYS = ("id", "down_kbps", "up_kbps", "seconds_per_sample", "seconds_per_batch", "latency_ms", "cores", "memory_mb")


def devices(path: str) -> DeviceTable:
    """Read a devices file; malformed rows are refused by id."""
    if path.endswith(".npz"):
        return devices_npz(path)
    ids, down, up, per_sample, latency, cores, memory, per_batch = [], [], [], [], [], [], [], []
    rows = device_rows(path) if is_sheet(path) else _rows(path, DEVICES, "devices")
    for i, row in enumerate(rows):
        name = _name(row, i, path, DEVICE_KEYS)
        where = f"{path}: device {name}"
        ids.append(name)
        down.append(numbers(row.get("down_kbps"), f"{where}: down_kbps", positive=True))
        up.append([] if row.get("up_kbps") is None else numbers(row["up_kbps"], f"{where}: up_kbps", positive=True))
        per_sample.append(numbers([row.get("seconds_per_sample")], f"{where}: seconds_per_sample")[0])
        batch = 0.0 if row.get("seconds_per_batch") is None else row["seconds_per_batch"]
        per_batch.append(numbers([batch], f"{where}: seconds_per_batch")[0])
        span = [0.0, 0.0] if row.get("latency_ms") is None else numbers(row["latency_ms"], f"{where}: latency_ms", length=2)
        if span[0] > span[1]:
            raise BadInput(f"{where}: latency_ms must be [low, high]")
        latency.append([s / 1000.0 for s in span])
        for column, key in ((cores, "cores"), (memory, "memory_mb")):
            column.append(np.nan if row.get(key) is None else numbers([row[key]], f"{where}: {key}", positive=True)[0])
    columns = (np.array(column) for column in (latency, cores, memory, per_batch))
    return check_ids(path, device_table(ids, down, per_sample, up, *columns))


def states(path: str) -> StateTable:
    """Read a states file: [s, e] covers s to e + 1, seconds are absolute, the trace repeats with period end - start."""
    if path.endswith(".npz"):
        return states_npz(path)
    table: list[StateRow] = []
    rows = state_rows(path) if is_sheet(path) else _rows(path, STATES, "states")
    for i, row in enumerate(rows):
        name = _name(row, i, path, STATE_KEYS)
        where = f"{path}: state {name}"
        start, end = numbers([row.get("start"), row.get("end")], f"{where}: start and end", signed=True)
        if end <= start:
            raise BadInput(f"{where}: end {end} is not after start {start}")
        table.append((name, start, end - start, disjoint_phases(row.get("ready"), start, end, where)))
    return check_ids(path, state_table(table))


def write_devices(path: str, table: DeviceTable) -> None:
    """Write a devices file, by its ending; every client has a row of its own there."""
    rows = len(table) * (1 + len(table.down) / len(table.ids))
    check_memory(rows * (24 if path.endswith(".npz") else _JSON_BYTES), f"writing {len(table):,} devices", _FEWER)
    table = unshared_devices(table)
    if path.endswith(".npz"):
        arrays: dict[str, Any] = {
            "format": np.array(DEVICES), "id": table.ids, "down_kbps": table.down, "down_kbps_offsets": table.down_offsets,
            "up_kbps": table.up, "up_kbps_offsets": table.up_offsets, "seconds_per_sample": table.seconds_per_sample,
            "latency_ms": table.latency * 1000.0, "cores": table.cores, "memory_mb": table.memory_mb,
        }  # fmt: skip
        if table.seconds_per_batch.any():
            arrays["seconds_per_batch"] = table.seconds_per_batch
        _write(path, lambda: np.savez_compressed(path, **arrays))
        return
    result = [device_row(table, i) for i in range(len(table))]
    if is_sheet(path):
        _write(path, lambda: write_device_sheet(Path(path), result))
    else:
        _write_json(path, {"format": DEVICES, "devices": result})


def device_row(table: DeviceTable, i: int) -> dict[str, Any]:
    """One device as the canonical file has it."""
    up = table.up[table.up_offsets[i] : table.up_offsets[i + 1]].tolist()
    row: dict[str, Any] = {
        "id": str(table.ids[i]),
        "down_kbps": table.down[table.down_offsets[i] : table.down_offsets[i + 1]].tolist(),
        "up_kbps": up or None,
        "seconds_per_sample": float(table.seconds_per_sample[i]),
    }
    if table.seconds_per_batch[i]:
        row["seconds_per_batch"] = float(table.seconds_per_batch[i])
    if table.latency[i].any():
        row["latency_ms"] = (table.latency[i] * 1000.0).tolist()
    if np.isfinite(table.cores[i]):
        row["cores"] = int(table.cores[i])
    if np.isfinite(table.memory_mb[i]):
        row["memory_mb"] = float(table.memory_mb[i])
    return row


def write_states(path: str, table: StateTable) -> None:
    """Write a states file, by its ending; every client has a row of its own there."""
    rows = len(table) * (1 + len(table.traces.begins) / len(table.ids))
    check_memory(rows * (48 if path.endswith(".npz") else 2 * _JSON_BYTES), f"writing {len(table):,} states", _FEWER)
    table = unshared_states(table)
    t = table.traces
    start, end = t.start, t.start + t.period
    owner = np.repeat(np.arange(len(table)), np.diff(t.offsets))
    ready = np.stack([t.begins + start[owner], t.ends + start[owner] - 1.0], axis=1)
    if path.endswith(".npz"):
        columns = {"start": start, "end": end, "ready": ready, "ready_offsets": t.offsets}
        _write(path, lambda: np.savez_compressed(path, format=np.array(STATES), id=table.ids, **columns))
        return
    pairs = np.split(ready, t.offsets[1:-1])
    rows = [
        {"id": str(table.ids[i]), "start": float(start[i]), "end": float(end[i]), "ready": pairs[i].tolist()}
        for i in range(len(table))
    ]
    if is_sheet(path):
        _write(path, lambda: write_state_sheet(Path(path), rows))
    else:
        _write_json(path, {"format": STATES, "states": rows})


def _write_json(path: str, value: Any) -> None:
    _write(path, lambda: Path(path).write_text(json.dumps(value) + "\n", encoding="utf-8"))


def _write(path: str, write: Callable[[], Any]) -> None:
    try:
        write()
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}; give a file in a folder that exists") from None


def _rows(path: str, form: str, field: str) -> list[Any]:
    loaded = read_json(path)
    if not isinstance(loaded, dict) or loaded.get("format") != form:
        raise BadInput(f'{path} is not a {field} file: it must say "format": "{form}"')
    for key in loaded:
        if key not in ("format", field):
            raise BadInput(f"{path} has an unknown key {key!r}{suggest_name(key, ('format', field))}")
    rows = loaded.get(field)
    if not isinstance(rows, list) or not rows:
        raise BadInput(f"{path}: the list {field!r} is missing or empty")
    return rows


def _name(row: Any, i: int, path: str, keys: tuple[str, ...]) -> str:
    if not isinstance(row, dict) or not isinstance(row.get("id"), str):
        raise BadInput(f"{path}: row {i} has no id; each row is an object with a string id")
    for key in row:
        if key not in keys:
            raise BadInput(f"{path}: row {i} ({row['id']}) has an unknown key {key!r}{suggest_name(key, keys)}")
    return row["id"]
