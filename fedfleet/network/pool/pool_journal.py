"""The pool's own journal, a line of JSON for each event, and what is counted from it: tasks and devices, for the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

Row = dict[str, Any]
_TASK_COLUMNS = (
    "client", "task", "kind", "round", "began", "ended", "declined", "download_seconds", "compute_seconds", "cpu_seconds",
    "bytes_down", "bytes_up", "samples", "private_mb", "task_mb", "cpu_share", "up", "down", "delay",
)  # fmt: skip
_MOMENTS = ("began", "ended", "at")  # of the clock that all processes of a machine share


@dataclass(slots=True)
class DeviceRecord:
    """What became of one device process: starts, deaths with their reasons, and the resources of all its lives."""

    starts: int = 0
    deaths: list[str] = field(default_factory=list[str])
    cpu_seconds: float = 0.0
    peak_rss_mb: float = 0.0
    state: str = "not started"


class PoolJournal:
    """Writes events as they happen, with the seconds since the run began, and keeps what the report needs. A resource."""

    def __init__(self, path: Path, devices: int, clock: Callable[[], float]) -> None:
        self._file: IO[str] = path.open("a", encoding="utf-8")
        self._clock, self._start = clock, clock()
        self.devices = [DeviceRecord() for _ in range(devices)]
        self._tasks: dict[tuple[int, int, str], Row] = {}

    def write(self, event: str, **fields: Any) -> None:
        """One event."""
        moments = {name: round(fields[name] - self._start, 6) for name in _MOMENTS if name in fields}
        row = {"seconds": round(self._clock() - self._start, 6), "event": event, **fields, **moments}
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()
        if event == "task":
            key = (row["client"], row["task"], row["kind"])
            attempts = self._tasks.get(key, {}).get("attempts", 0) + 1
            columns = {name: row.get(name) for name in _TASK_COLUMNS}
            self._tasks[key] = {"device": row["device"], **columns, "attempts": attempts, "delivered": None, "end": None}
        elif event == "delivered":
            key = (row["client"], row["task"], row["kind"])
            if key in self._tasks:  # else an earlier life of the device reported it, before it was killed
                self._tasks[key] |= {"delivered": row["at"], "end": row["end"]}

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return self._clock() - self._start

    def tasks(self) -> list[Row]:
        """A row for each task that a device reported on, in the order of the tasks."""
        return sorted(self._tasks.values(), key=lambda row: (row["task"], row["client"]))

    def close(self) -> None:
        """No more events."""
        self._file.close()
