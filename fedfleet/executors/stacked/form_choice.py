"""Which form is fastest for this model here: measured once, before round 1."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from fedfleet.core.parts import Job, Offer, Task
from fedfleet.core.passes import BatchPlan, LocalPass
from fedfleet.executors.stacked.cohort import train_cohort
from fedfleet.executors.stacked.placement import open_place
from fedfleet.learn.optimisers import sgd

_COHORT, _STEPS, _BATCH, _REPEATS = 10, 3, 10, 3


def candidates(device: str, threads: int) -> list[tuple[str, int]]:
    """The forms worth trying on a kind of device, each with a number of threads: tiny models are faster on one."""
    if device != "cpu":
        return [("merged", 1)]
    return [(form, n) for form in ("merged", "loop") for n in sorted({1, threads})]


@dataclass(frozen=True, slots=True)
class Form:
    """A form and its number of threads, which together decide the last bits; and how long each candidate took."""

    name: str
    threads: int
    seconds: dict[str, float] = field(default_factory=dict[str, float])


def choose_form(task: Task, *, device: str, threads: int) -> Form:
    """The form that trains a small made-up cohort fastest."""
    forms = candidates(device, threads)
    times = {f: _seconds(task, f[0], device, f[1]) for f in forms} if len(forms) > 1 else {forms[0]: 0.0}
    form, own_threads = min(times, key=lambda f: times[f])
    return Form(form, own_threads, {f"{name} x{n}": t for (name, n), t in times.items()})


def _seconds(task: Task, form: str, device: str, threads: int) -> float:
    place = open_place(task, device=device, threads=threads, form=form, tf32=False, graphs=False)
    local = LocalPass(sgd(), BatchPlan(_BATCH, steps=_STEPS), rate=0.01)
    offer, n = Offer(task.init(0)), len(task.dataset.y)
    rows = [(np.arange(_BATCH * _STEPS) + i * _BATCH) % n for i in range(_COHORT)]
    jobs = [Job(i, i, i, 0, offer, local, rows[i]) for i in range(_COHORT)]
    train_cohort(place, jobs)
    times: list[float] = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        train_cohort(place, jobs)
        times.append(time.perf_counter() - start)
    return min(times)  # what else runs on this machine can only make it slower
