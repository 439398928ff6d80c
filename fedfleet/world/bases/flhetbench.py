"""FLHetBench's files: device cases, the union of their devices, cached timers, state cases, training latency."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import DeviceTable, StateTable, device_table
from fedfleet.world.bases.file_checks import StateRow, numbers, phases, read_json, state_table

# The mean of the 21 ViT rows of training_latency.json, in seconds, for when that file is not at hand.
VIT_SECONDS = 0.4792


def devices(path: str) -> DeviceTable:
    """A device case (a list of records with `tcp_speed_results`, kbit/s) or a base with `tcp_speed_kbps`.

    PATH#LATENCY names the latency file; without it one is looked for beside the devices. Seconds per sample are the mean
    of its ViT rows.
    """
    path, _, latency = path.partition("#")
    rows = read_json(path)
    if isinstance(rows, dict):
        rows = [{"id": key, **row} if isinstance(row, dict) else row for key, row in rows.items()]
    if not isinstance(rows, list) or not rows:
        raise BadInput(f"{path}: a list of device records is expected")
    ids, speeds = [], []
    for i, row in enumerate(rows):
        result = row.get("tcp_speed_results", row.get("tcp_speed_kbps")) if isinstance(row, dict) else None
        if result is None:
            raise BadInput(f"{path}: device {i} has neither tcp_speed_results nor tcp_speed_kbps")
        ids.append(str(row.get("id", i)))
        speeds.append(numbers(result, f"{path}: device {ids[-1]}: speeds", positive=True))
    return device_table(ids, speeds, np.full(len(ids), _seconds_per_sample(path, latency)))


def states(path: str) -> StateTable:
    """Cached timers, all usable ones; TIMERS#IDS takes the ids that a state case lists, in its order."""
    timers, _, chosen = path.partition("#")
    loaded = read_json(timers)
    if not isinstance(loaded, dict) or not loaded:
        raise BadInput(f"{timers}: a table of id -> timer is expected")
    usable = [key for key, row in loaded.items() if isinstance(row, dict) and row.get("ready_time")]
    wanted = read_json(chosen) if chosen else usable
    if not isinstance(wanted, list) or not wanted:
        raise BadInput(f"{chosen or timers}: there is no usable state")
    states: list[StateRow] = []
    for key in map(str, wanted):
        row: Any = loaded.get(key)
        where = f"{timers}: state {key}"
        if not isinstance(row, dict) or not row.get("ready_time"):
            raise BadInput(f"{where} (named in {chosen}) is unknown or never ready")
        start, end = numbers([row.get("trace_start"), row.get("trace_end")], f"{where}: trace_start and trace_end", signed=True)
        start, end = float(int(start)), float(int(end))
        if end <= start:
            raise BadInput(f"{where}: trace_end {end} is not after trace_start {start}")
        states.append((key, start, end - start, phases(row["ready_time"], start, end, where)))
    return state_table(states)


def _seconds_per_sample(path: str, latency: str) -> float:
    if latency:
        return vit_seconds(latency)
    near = [Path(path).parent, Path(path).parent.parent, Path(os.environ.get("FEDFLEET_DATA", "../shared/data")) / "flhetbench"]
    for folder in near:
        for name in ("training_latency.json", "latency/training_latency.json"):
            if (folder / name).is_file():
                return vit_seconds(str(folder / name))
    return VIT_SECONDS


def vit_seconds(path: str) -> float:
    """The mean ViT inference latency of a latency file, in seconds; zeros are missing measurements."""
    rows = read_json(path)
    result = [r["Vit Latency"] for r in rows if isinstance(r, dict) and r.get("Vit Latency")] if isinstance(rows, list) else []
    if not result:
        raise BadInput(f"{path}: no row has a Vit Latency")
    return float(np.mean(numbers(result, f"{path}: Vit Latency", positive=True))) / 1000.0
