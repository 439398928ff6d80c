"""`fedfleet profile`: measure the device that we run on, as one row of a devices file."""

from __future__ import annotations

import json
import platform
import resource
import statistics
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from fedfleet.app.benching import made_up_task
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.world.bases.canonical import DEVICES, devices

WARM_UP = 10
_PROBE_BYTES = 4_000_000
_LINK_TRIES = 5


def profile_device(
    task: str, *, batch: int, iterations: int, side: int | None, name: str | None, server: str | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A row of a devices file for this machine, and what was measured besides.

    After a warm-up, `iterations` inferences of one sample and training steps of one batch; as in FLHetBench, images can be
    random ones of side x side pixels. Without a server the link is not known, so a wired 100 Mbit/s is assumed and said.
    """
    from fedfleet.runtime.executors.probe import time_model

    timed = time_model(made_up_task(task, 200), batch=batch, iterations=iterations, warm_up=WARM_UP, side=side)
    down, up = ([100_000.0], None) if server is None else link_speed(server)
    row = {
        "id": name or platform.node() or "this-device",
        "down_kbps": down,
        "up_kbps": up,
        "seconds_per_sample": statistics.fmean(timed.inference),
        "cores": timed.threads,
        "memory_mb": _memory_mb(),
    }
    details = {
        "task": task,
        "inference_seconds": {"mean": statistics.fmean(timed.inference), "sd": statistics.pstdev(timed.inference)},
        "training_seconds_per_sample": statistics.fmean(timed.training) / batch,
        "training_over_inference": statistics.fmean(timed.training) / batch / statistics.fmean(timed.inference),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "link": "measured" if server else "assumed: 100 Mbit/s; give --server to measure it",
    }
    return row, details


def link_speed(server: str) -> tuple[list[float], list[float] | None]:
    """Download and upload speeds in kbit/s to an HTTP server, several tries each; no upload if it takes none."""
    url = server if "://" in server else f"http://{server}"
    down, up = [], []
    try:
        for _ in range(_LINK_TRIES):
            start = time.perf_counter()
            with urllib.request.urlopen(url, timeout=30) as reply:
                size = len(reply.read(_PROBE_BYTES))
            if size == 0:
                raise RunFailed(
                    f"{url} answers with nothing, so no speed can be measured; name a file of some megabytes"
                )
            down.append(size * 8 / 1000 / (time.perf_counter() - start))
    except (OSError, ValueError) as wrong:
        raise RunFailed(f"the link to {url} cannot be measured: {wrong}") from None
    payload = bytes(_PROBE_BYTES // 4)
    try:
        for _ in range(_LINK_TRIES):
            start = time.perf_counter()
            urllib.request.urlopen(urllib.request.Request(url, data=payload, method="POST"), timeout=30).close()
            up.append(len(payload) * 8 / 1000 / (time.perf_counter() - start))
    except (OSError, urllib.error.HTTPError):
        return down, None
    return down, up


def append_row(path: Path, row: dict[str, Any]) -> None:
    """Add the row to a devices file, or begin one; a device of the same name is replaced."""
    rows: list[dict[str, Any]] = []
    if path.exists():
        devices(str(path))  # refuses what is not a devices file
        rows = [r for r in json.loads(path.read_text())["devices"] if r["id"] != row["id"]]
    try:
        draft = path.with_name(path.name + ".part")
        draft.write_text(json.dumps({"format": DEVICES, "devices": [*rows, row]}, indent=1) + "\n")
        draft.replace(path)
    except OSError as wrong:
        raise BadInput(f"{path} cannot be written: {wrong}") from None


def _memory_mb() -> float:
    import os

    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e6
