"""A fleet from what real devices showed: tasks in a served run's journal, profiles that they sent, and their check-ins."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedfleet.core.cost import TRAINING_PASSES
from fedfleet.core.errors import BadInput, Refused
from fedfleet.core.events import Event
from fedfleet.core.fleet import DeviceTable, StateTable, device_table
from fedfleet.core.limits import LARGEST, SMALLEST
from fedfleet.core.records import DROPPED, LOST, Floats
from fedfleet.measure.run_record import RunRecord, read_record
from fedfleet.measure.tasks import RUNNING
from fedfleet.network.frontend.device_profiles import PROFILES, check_profile
from fedfleet.network.rules.checkins import Intervals, read_intervals
from fedfleet.world.bases.canonical_files import device_row, devices
from fedfleet.world.bases.file_checks import StateRow, state_table

Source = Literal["both", "tasks", "profiles"]
Row = dict[str, Any]  # of a devices file, as far as it is known
ASSUMED_KBPS = 100_000.0  # of a link that nobody measured
_MOST_SPEEDS = 200  # of one link: later ones count


def device_rows(events: Sequence[Event], profiles: Mapping[int, Row], source: Source) -> dict[int, Row]:
    """The devices of the clients of which something was measured. What tasks show counts more than what a device says of itself."""
    rows: dict[int, Row] = {} if source == "profiles" else rows_from_tasks(read_record(events))
    if source == "tasks":
        return rows
    return {client: {**profiles.get(client, {}), **rows.get(client, {})} for client in sorted({*profiles, *rows})}


def rows_from_tasks(record: RunRecord) -> dict[int, Row]:
    """By client: its seconds for a training sample, as the median of its tasks, and the speeds of its link in each of them.

    Seconds of an upload are those between sending the task and its report that are neither download nor work, where the device
    did not measure them itself.
    """
    tasks, spent = record.tasks.table(), record.tasks.spending()
    download, compute = spent.column("download"), spent.column("compute")
    upload = np.where(np.isfinite(spent.column("upload")), spent.column("upload"), tasks.seconds - download - compute)
    arrived = spent.accounted & ~np.isin(tasks.fate, (RUNNING, LOST, DROPPED))
    per_sample = _positive(compute, tasks.samples) / TRAINING_PASSES
    down, up = (_positive(8.0 / 1000.0 * n, s) for n, s in ((tasks.bytes_down, download), (tasks.bytes_up, upload)))
    result: dict[int, Row] = {}
    for client in np.unique(tasks.clients[arrived & np.isfinite(per_sample)]).tolist():
        own = arrived & (tasks.clients == client)
        row: Row = {"seconds_per_sample": float(np.nanmedian(per_sample[own])), "seconds_per_batch": 0.0}
        for name, speeds in (("down_kbps", down[own]), ("up_kbps", up[own])):
            known = speeds[np.isfinite(speeds)][-_MOST_SPEEDS:]
            if len(known):
                row[name] = known.tolist()
        result[client] = row
    return result


def _positive(amount: Floats, seconds: Floats) -> Floats:
    """Amounts by seconds or the other way round; NaN where one of them is unknown or nothing."""
    with np.errstate(all="ignore"):
        rate = amount / seconds
    return np.where((amount > 0) & (seconds > 0) & (rate >= SMALLEST) & (rate <= LARGEST), rate, np.nan)


def read_profiles(path: Path) -> dict[int, Row]:
    """By client: what the last profile that it sent says of it."""
    result: dict[int, Row] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            client = entry.pop("client")
            if type(client) is not int or client < 0:
                raise ValueError("its client is no number")
            result[client] = row_from_profile(check_profile(json.dumps(entry).encode()))
        except (ValueError, KeyError, AttributeError, TypeError, Refused) as error:
            raise BadInput(f"{path}: line {number} is no profile of a device ({error})") from None
    return result


def row_from_profile(profile: Mapping[str, Any]) -> Row:
    """What a profile says, as in a devices file. Its seconds are those of training, and of a whole batch.

    >>> row_from_profile({"model": "har_cnn", "seconds_per_batch": 4.8, "batch": 16, "down_bytes_per_second": 1000})
    {'seconds_per_sample': 0.1, 'seconds_per_batch': 0.0, 'down_kbps': [8.0]}
    """
    seconds = profile.get("seconds_per_sample") or profile["seconds_per_batch"] / max(profile.get("batch", 1), 1)
    row: Row = {"seconds_per_sample": round(seconds / TRAINING_PASSES, 15), "seconds_per_batch": 0.0}
    for name, speed in (("down_kbps", "down_bytes_per_second"), ("up_kbps", "up_bytes_per_second")):
        if profile.get(speed):
            row[name] = [8.0 / 1000.0 * profile[speed]]
    if profile.get("latency_seconds"):
        row["latency_ms"] = [1000.0 * profile["latency_seconds"]] * 2
    if profile.get("memory_mb"):
        row["memory_mb"] = profile["memory_mb"]
    return row


def rows_of_file(path: Path) -> dict[str, Row]:
    """By id: the devices of a devices file, or those of a file of profiles."""
    if path.suffix == ".jsonl":
        return {f"{path.parent.name or 'run'}-{client}": row for client, row in read_profiles(path).items()}
    table = devices(str(path))
    return {str(table.ids[i]): device_row(table, i) for i in range(len(table.ids))}


def fleet_table(rows: Mapping[str, Row]) -> DeviceTable:
    """The devices as a table; a link that nobody measured has `ASSUMED_KBPS`."""

    def column(name: str, missing: float) -> Floats:
        return np.array([missing if row.get(name) is None else row[name] for row in rows.values()], np.float64)

    return device_table(
        list(rows),
        [row.get("down_kbps") or row.get("up_kbps") or [ASSUMED_KBPS] for row in rows.values()],
        column("seconds_per_sample", math.nan),
        [row.get("up_kbps") or [] for row in rows.values()],
        np.array([row.get("latency_ms") or [0.0, 0.0] for row in rows.values()], np.float64) / 1000.0,
        column("cores", math.nan),
        column("memory_mb", math.nan),
        column("seconds_per_batch", 0.0),
    )


def availability(intervals: Intervals, names: Mapping[int, str]) -> StateTable:
    """When each of these clients was there, from the run's beginning to the last check-in of any; a moment counts as a second."""
    end = math.ceil(max(float(intervals.ends.max(initial=1.0)), float(intervals.starts.max(initial=0.0)) + 1.0))
    rows: list[StateRow] = []
    for client, name in names.items():
        own = intervals.clients == client
        stays = zip(intervals.starts[own].tolist(), intervals.ends[own].tolist(), strict=True)
        rows.append((name, 0.0, float(end), _join_stays((max(a, 0.0), max(b, a + 1.0)) for a, b in stays)))
    return state_table(rows)


def _join_stays(stays: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Stays in order, those that touch as one."""
    result: list[tuple[float, float]] = []
    for begin, end in sorted(stays):
        if result and begin <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((begin, end))
    return result


def stored_checkins(folder: Path) -> Intervals:
    """The check-ins of a served run."""
    return read_intervals(folder / "wire" / "checkins.bin")


def stored_profiles(folder: Path) -> dict[int, Row]:
    """The profiles that devices of a served run sent; none if none did."""
    path = folder / PROFILES
    return read_profiles(path) if path.exists() else {}
