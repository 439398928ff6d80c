"""Measuring this device, as one row of a devices file."""

from __future__ import annotations

import http.client
import json
import os
import platform
import resource
import statistics
import time
import urllib.request
from pathlib import Path
from typing import Any

from fedfleet.app.machine.cohort_speed import synthetic_task
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.json_text import parse_json
from fedfleet.world.bases.canonical_files import DEVICES, devices
from fedfleet.world.bases.csv_files import device_rows, is_sheet, write_device_sheet

WARM_UP = 10
_PROBE_BYTES = 4_000_000
_LINK_TRIES = 5


def profile_device(
    task: str, *, batch: int, iterations: int, side: int | None, name: str | None, server: str | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A row of a devices file for this machine, and further measurements.

    After a warm-up, it times `iterations` inferences of one sample and as many training steps of one batch. As in FLHetBench,
    images can be random ones of side x side pixels. Without a server the link is unknown: the row then assumes a wired
    100 Mbit/s, and the measurements say so.
    """
    from fedfleet.executors.bench import time_model

    timing = time_model(synthetic_task(task, 200), batch=batch, iterations=iterations, warm_up=WARM_UP, side=side)
    down, up = ([100_000.0], None) if server is None else link_speed(server)
    row = {
        "id": name or platform.node() or "this-device",
        "down_kbps": down,
        "up_kbps": up,
        "seconds_per_sample": statistics.fmean(timing.inference),
        "cores": timing.threads,
        "memory_mb": _memory_mb(),
    }
    details = {
        "task": task,
        "inference_seconds": {"mean": statistics.fmean(timing.inference), "sd": statistics.pstdev(timing.inference)},
        "training_seconds_per_sample": statistics.fmean(timing.training) / batch,
        "training_over_inference": statistics.fmean(timing.training) / batch / statistics.fmean(timing.inference),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "link": "measured" if server else "not measured, 100 Mbit/s assumed; give --server to measure it",
    }
    return row, details


def link_speed(server: str) -> tuple[list[float], list[float] | None]:
    """Several measured download and upload speeds in kbit/s to an HTTP server; upload is None if it takes no uploads."""
    url = server if "://" in server else f"http://{server}"
    down, up = [], []
    try:
        for _ in range(_LINK_TRIES):
            start = time.perf_counter()
            with urllib.request.urlopen(url, timeout=30) as reply:
                size = len(reply.read(_PROBE_BYTES))
            if size == 0:
                raise RunFailed(f"{url} sends an empty answer, so its speed cannot be measured; give the address of a larger file")
            down.append(size * 8 / 1000 / (time.perf_counter() - start))
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise RunFailed(f"cannot measure the link to {url}: {error}") from None
    payload = bytes(_PROBE_BYTES // 4)
    try:
        for _ in range(_LINK_TRIES):
            start = time.perf_counter()
            urllib.request.urlopen(urllib.request.Request(url, data=payload, method="POST"), timeout=30).close()
            up.append(len(payload) * 8 / 1000 / (time.perf_counter() - start))
    except (OSError, http.client.HTTPException):
        return down, None
    return down, up


def append_row(path: Path, row: dict[str, Any]) -> None:
    """Add the row to a devices file, which is created if it is not there; a device of the same id is replaced."""
    rows: list[dict[str, Any]] = []
    if path.exists():
        devices(str(path))  # refuses a file of another format
        old_rows = device_rows(str(path)) if is_sheet(str(path)) else parse_json(path.read_text(encoding="utf-8"))["devices"]
        rows = [r for r in old_rows if r["id"] != row["id"]]
    try:
        draft = path.with_name(path.name + ".part")
        if is_sheet(str(path)):
            write_device_sheet(draft, [*rows, row])
        else:
            draft.write_text(json.dumps({"format": DEVICES, "devices": [*rows, row]}, indent=1) + "\n", encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error}") from None


def _memory_mb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e6
