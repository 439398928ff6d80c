"""Measuring this device, as one row of a devices file."""

from __future__ import annotations

import http.client
import json
import os
import platform
import statistics
import time
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.app.machine.cohort_speed import synthetic_task
from fedfleet.core.cost import TRAINING_PASSES
from fedfleet.core.engines import EngineName
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.json_text import parse_json
from fedfleet.core.parts import Task
from fedfleet.network.device.work import peak_bytes
from fedfleet.world.bases.canonical_files import DEVICES, devices
from fedfleet.world.bases.csv_files import device_rows, is_sheet, write_device_sheet

_PROBE_BYTES = 4_000_000
_LINK_TRIES = 5
_REPEATS = 10  # iterations for each round of the timed tasks, which hold about as many batches


def profile_device(
    task: str, *, engine: EngineName, batch: int, iterations: int, side: int | None, name: str | None, server: str | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A row of a devices file for this machine, and further measurements.

    Whole tasks of different size are trained with the engine, on one thread as a device trains, and their seconds are split by what
    each task, batch and sample takes. As in FLHetBench, images can be random ones of side x side pixels. Without a server the link
    is unknown: the row then assumes a wired 100 Mbit/s, and the measurements say so.
    """
    from fedfleet.executors.engines import open_engine
    from fedfleet.executors.task_times import fit_times, time_inference, time_tasks

    timed_task = synthetic_task(task, 200)
    if side is not None:
        timed_task = with_images(timed_task, side)
    try:
        execute = open_engine(engine, timed_task)
        inference = time_inference(execute, timed_task, iterations=iterations)
    except (RuntimeError, ValueError) as error:
        if side is None:
            raise
        raise BadInput(f"--side {side}: the model of {task} cannot take such images ({str(error).splitlines()[0]})") from None
    batches, samples, seconds = time_tasks(execute, timed_task, batch=batch, rounds=max(1, iterations // _REPEATS))
    times = fit_times(batches, samples, seconds)
    if times.per_sample == 0.0:
        # Batches and samples cannot be told apart here, as with a tiny model: no device computes a sample in no time.
        times = replace(times, per_sample=times.per_batch / batch, per_batch=0.0)
    per_sample = times.per_sample + times.per_batch / batch
    down, up = ([100_000.0], None) if server is None else link_speed(server)
    row: dict[str, Any] = {
        "id": name or platform.node() or "this-device",
        "down_kbps": down,
        "up_kbps": up,
        "seconds_per_sample": times.per_sample / TRAINING_PASSES,
        "seconds_per_batch": times.per_batch,
        "latency_ms": [1000.0 * times.per_task] * 2,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_mb": _memory_mb(),
    }
    details = {
        "task": task,
        "engine": engine,
        "inference_seconds": {"mean": statistics.fmean(inference), "sd": statistics.pstdev(inference)},
        "training_seconds": {"per_task": times.per_task, "per_batch": times.per_batch, "per_sample": times.per_sample},
        "training_seconds_error": times.error,
        "training_seconds_per_sample": per_sample,
        "training_over_inference": per_sample / statistics.fmean(inference),
        "peak_rss_mb": peak_bytes() / 1e6,
        "link": "measured" if server else "not measured, 100 Mbit/s assumed; give --server to measure it",
    }
    return row, details


def with_images(task: Task, side: int) -> Task:
    """The task on random images of side x side pixels."""
    x = task.dataset.x
    if x.ndim != 4:
        raise BadInput(f"--side: the samples of {task.name} are not images")
    images = np.random.default_rng(0).random((len(x), x.shape[1], side, side), np.float32)
    return replace(task, dataset=replace(task.dataset, x=images))


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
