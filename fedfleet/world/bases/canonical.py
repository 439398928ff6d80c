"""The canonical files `fedfleet/devices@1` and `fedfleet/states@1`, as JSON or, for large fleets, as .npz; read and written."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import DeviceTable, StateTable, device_table, unshared_devices, unshared_states
from fedfleet.core.intervals import traces
from fedfleet.world.bases.reading import numbers, phases, read_json, state_table

DEVICES, STATES = "fedfleet/devices@1", "fedfleet/states@1"


def devices(path: str) -> DeviceTable:
    """Read a devices file; malformed rows are refused by id."""
    if path.endswith(".npz"):
        return _devices_npz(path)
    ids, down, up, per_sample, latency, cores, memory, per_batch = [], [], [], [], [], [], [], []
    for i, row in enumerate(_rows(path, DEVICES, "devices")):
        name = _name(row, i, path)
        where = f"{path}: device {name}"
        ids.append(name)
        down.append(numbers(row.get("down_kbps"), f"{where}: down_kbps", positive=True))
        up.append([] if row.get("up_kbps") is None else numbers(row["up_kbps"], f"{where}: up_kbps", positive=True))
        per_sample.append(numbers([row.get("seconds_per_sample")], f"{where}: seconds_per_sample")[0])
        batch = 0.0 if row.get("seconds_per_batch") is None else row["seconds_per_batch"]
        per_batch.append(numbers([batch], f"{where}: seconds_per_batch")[0])
        span = (
            [0.0, 0.0]
            if row.get("latency_ms") is None
            else numbers(row["latency_ms"], f"{where}: latency_ms", length=2)
        )
        if span[0] > span[1]:
            raise BadInput(f"{where}: latency_ms must be [low, high]")
        latency.append([s / 1000.0 for s in span])
        for column, key in ((cores, "cores"), (memory, "memory_mb")):
            column.append(np.nan if row.get(key) is None else numbers([row[key]], f"{where}: {key}", positive=True)[0])
    columns = (np.array(column) for column in (latency, cores, memory, per_batch))
    return device_table(ids, down, per_sample, up, *columns)


def states(path: str) -> StateTable:
    """Read a states file: [s, e] covers s to e + 1, seconds are absolute, the trace repeats with period end - start."""
    if path.endswith(".npz"):
        return _states_npz(path)
    ids, starts, periods, spans = [], [], [], []
    for i, row in enumerate(_rows(path, STATES, "states")):
        name = _name(row, i, path)
        where = f"{path}: state {name}"
        start, end = numbers([row.get("start"), row.get("end")], f"{where}: start and end", signed=True)
        if end <= start:
            raise BadInput(f"{where}: end {end} is not after start {start}")
        ids.append(name)
        starts.append(start)
        periods.append(end - start)
        spans.append(phases(row.get("ready"), start, end, where))
    return state_table(ids, starts, periods, spans)


def write_devices(path: str, table: DeviceTable) -> None:
    """Write a devices file, by its ending; every client has a row of its own there."""
    table = unshared_devices(table)
    if path.endswith(".npz"):
        arrays: dict[str, Any] = {
            "format": np.array(DEVICES), "id": table.ids, "down_kbps": table.down, "down_kbps_offsets": table.down_offsets,
            "up_kbps": table.up, "up_kbps_offsets": table.up_offsets, "seconds_per_sample": table.seconds_per_sample,
            "latency_ms": table.latency * 1000.0, "cores": table.cores, "memory_mb": table.memory_mb,
        }  # fmt: skip
        if table.seconds_per_batch.any():
            arrays["seconds_per_batch"] = table.seconds_per_batch
        np.savez_compressed(path, **arrays)
        return
    _write_json(path, {"format": DEVICES, "devices": [device_row(table, i) for i in range(len(table))]})


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
    table = unshared_states(table)
    t = table.traces
    start, end = t.start, t.start + t.period
    owner = np.repeat(np.arange(len(table)), np.diff(t.offsets))
    ready = np.stack([t.begins + start[owner], t.ends + start[owner] - 1.0], axis=1)
    if path.endswith(".npz"):
        np.savez_compressed(
            path, format=np.array(STATES), id=table.ids, start=start, end=end, ready=ready, ready_offsets=t.offsets
        )
        return
    pairs = np.split(ready, t.offsets[1:-1])
    rows = [
        {"id": str(table.ids[i]), "start": float(start[i]), "end": float(end[i]), "ready": pairs[i].tolist()}
        for i in range(len(table))
    ]
    _write_json(path, {"format": STATES, "states": rows})


def _write_json(path: str, value: Any) -> None:
    try:
        Path(path).write_text(json.dumps(value) + "\n")
    except OSError as wrong:
        raise BadInput(f"{path} cannot be written: {wrong}") from None


def _rows(path: str, form: str, field: str) -> list[Any]:
    loaded = read_json(path)
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


def _npz(path: str, form: str, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}") from None
    except (OSError, ValueError, zipfile.BadZipFile) as wrong:
        raise BadInput(f"{path} cannot be read as .npz: {wrong}") from None
    missing = [name for name in ("format", "id", *names) if name not in found]
    if missing:
        raise BadInput(f"{path}: the array {missing[0]!r} is missing")
    if str(found["format"]) != form:
        raise BadInput(f"{path} says format {found['format']}, not {form}")
    return found


def _refuse(path: str, what: str, ids: np.ndarray, wrong: np.ndarray, why: str) -> None:
    if wrong.any():
        raise BadInput(f"{path}: {what} {ids[int(np.flatnonzero(wrong)[0])]}: {why}")


def _any_in_span(wrong: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """For each row: is anything wrong in its span?"""
    return np.diff(np.concatenate([[0], np.cumsum(wrong)])[offsets]) > 0


def _offsets(path: str, name: str, offsets: np.ndarray, n: int, length: int) -> np.ndarray:
    if len(offsets) != n + 1 or offsets[0] != 0 or offsets[-1] != length or (np.diff(offsets) < 0).any():
        raise BadInput(f"{path}: {name} must hold {n + 1} numbers that rise from 0 to {length}")
    return offsets.astype(np.int64)


def _devices_npz(path: str) -> DeviceTable:
    got = _npz(path, DEVICES, ("down_kbps", "down_kbps_offsets", "up_kbps", "up_kbps_offsets", "seconds_per_sample"))
    ids = got["id"].astype(np.str_)
    n = len(ids)
    down, up = got["down_kbps"].astype(np.float64), got["up_kbps"].astype(np.float64)
    down_offsets = _offsets(path, "down_kbps_offsets", got["down_kbps_offsets"], n, len(down))
    up_offsets = _offsets(path, "up_kbps_offsets", got["up_kbps_offsets"], n, len(up))
    per_sample = got["seconds_per_sample"].astype(np.float64)
    per_batch = got.get("seconds_per_batch", np.zeros(n)).astype(np.float64)
    latency = got.get("latency_ms", np.zeros((n, 2))).astype(np.float64) / 1000.0
    if per_sample.shape != (n,) or per_batch.shape != (n,) or latency.shape != (n, 2):
        raise BadInput(
            f"{path}: seconds_per_sample and seconds_per_batch must have {n} entries each and latency_ms {n} pairs"
        )
    for values, offsets in ((down, down_offsets), (up, up_offsets)):
        wrong = ~(np.isfinite(values) & (values > 0))
        _refuse(path, "device", ids, _any_in_span(wrong, offsets), "a speed is not positive")
    _refuse(path, "device", ids, np.diff(down_offsets) == 0, "it has no down_kbps")
    for name, column in (("seconds_per_sample", per_sample), ("seconds_per_batch", per_batch)):
        wrong = ~(np.isfinite(column) & (column >= 0))
        _refuse(path, "device", ids, wrong, f"{name} is negative or not finite")
    none = np.full(n, np.nan)
    cores, memory = (got.get(key, none).astype(np.float64) for key in ("cores", "memory_mb"))
    return DeviceTable(ids, down, down_offsets, up, up_offsets, per_sample, latency, cores, memory, per_batch)


def _states_npz(path: str) -> StateTable:
    got = _npz(path, STATES, ("start", "end", "ready", "ready_offsets"))
    ids = got["id"].astype(np.str_)
    n, ready = len(ids), got["ready"].astype(np.float64).reshape(-1, 2)
    start, end = got["start"].astype(np.float64), got["end"].astype(np.float64)
    if start.shape != (n,) or end.shape != (n,):
        raise BadInput(f"{path}: start and end must have {n} entries")
    offsets = _offsets(path, "ready_offsets", got["ready_offsets"], n, len(ready))
    owner = np.repeat(np.arange(n), np.diff(offsets))
    _refuse(path, "state", ids, ~(np.isfinite(start) & (end > start)), "its end is not after its start")
    _refuse(path, "state", ids, np.diff(offsets) == 0, "it is never ready; leave such a client out")
    begins = ready[:, 0] - start[owner]
    ends = np.minimum(ready[:, 1] + 1.0, end[owner]) - start[owner]
    wrong = ~(ready[:, 1] >= ready[:, 0]) | (begins < 0) | ~(ready[:, 0] < end[owner])
    wrong[1:] |= (owner[1:] == owner[:-1]) & (begins[1:] < ends[:-1])
    _refuse(
        path,
        "state",
        ids,
        _any_in_span(wrong, offsets),
        "an interval is empty, outside, or not after the one before",
    )
    return StateTable(ids, traces(start, end - start, offsets, begins, ends))
