"""Which form is fastest for this model here: measured once before round 1, and kept for every resumption."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np

from fedfleet.core.parts import Job, Offer, Task
from fedfleet.core.passes import BatchPlan, LocalPass
from fedfleet.learn.optimisers import sgd
from fedfleet.runtime.executors.stacked.executor import train_cohort
from fedfleet.runtime.executors.stacked.place import open_place

_COHORT, _STEPS, _BATCH, _REPEATS = 10, 3, 10, 3


def candidates(device: str, threads: int) -> list[tuple[str, int]]:
    """The forms worth trying on a kind of device, each with a number of threads: tiny models are faster on one."""
    if device != "cpu":
        return [("merged", 1)]
    return [(form, n) for form in ("merged", "loop") for n in sorted({1, threads})]


def choose_form(task: Task, *, device: str, threads: int, keep: Path | None = None) -> tuple[str, int]:
    """Form and threads that train a small made-up cohort fastest; the choice is read from, or written to, the run's folder."""
    if keep is not None and keep.is_file():
        kept = json.loads(keep.read_text())
        return kept["form"], kept["threads"]
    forms = candidates(device, threads)
    times = {f: _seconds(task, f[0], device, f[1]) for f in forms} if len(forms) > 1 else {forms[0]: 0.0}
    form, own_threads = min(times, key=lambda f: times[f])
    if keep is not None:
        seconds = {f"{name} x{n}": t for (name, n), t in times.items()}
        keep.write_text(json.dumps({"form": form, "threads": own_threads, "device": device, "seconds": seconds}) + "\n")
    return form, own_threads


def _seconds(task: Task, form: str, device: str, threads: int) -> float:
    where = open_place(task, device=device, threads=threads, form=form, tf32=False, graphs=False)
    local = LocalPass(sgd(), BatchPlan(_BATCH, steps=_STEPS), rate=0.01)
    offer, n = Offer(task.init(0)), len(task.dataset.y)
    rows = [(np.arange(_BATCH * _STEPS) + i * _BATCH) % n for i in range(_COHORT)]
    jobs = [Job(i, i, i, 0, offer, local, rows[i]) for i in range(_COHORT)]
    train_cohort(where, jobs)
    found: list[float] = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        train_cohort(where, jobs)
        found.append(time.perf_counter() - start)
    return min(found)  # what else runs on this machine can only make it slower
