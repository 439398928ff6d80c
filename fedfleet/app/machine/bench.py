"""`fedfleet bench train`: how fast does a cohort train here, against the loop that everybody writes?"""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from fedfleet.app.tables import build_part, resolve_part
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Task


def made_up_task(name: str, samples: int) -> Task:
    """A task on made-up data of its shape; on its own data where those are embedded, as the digits are."""
    try:
        table = resolve_part("tasks", {"use": name, "synthetic": True, "samples": samples}, "--task")
    except BadInput:
        table = resolve_part("tasks", {"use": name}, "--task")
    return build_part("tasks", table)(0)


def bench_train(
    task: str, *, cohort: int, steps: int, batch: int, device: str, form: str | None, tf32: bool, repeats: int = 5
) -> dict[str, Any]:
    """The contract of `fedfleet bench train`; without a form, the fastest one for this model here."""
    from fedfleet.runtime.executors.bench import compare
    from fedfleet.runtime.executors.stacked.forms import candidates

    built = made_up_task(task, max(200, min(cohort * steps * batch, 20_000)))
    cores = len(os.sched_getaffinity(0))
    asked = [(form, cores)] if form else candidates(device, cores)
    found = [
        compare(
            built,
            cohort=cohort,
            steps=steps,
            batch=batch,
            device=device,
            threads=n,
            tf32=tf32,
            form=f,
            repeats=repeats,
        )
        for f, n in asked
    ]
    best = min(found, key=lambda c: c.stacked_seconds)
    naive = min(c.naive_seconds for c in found)
    return {
        **asdict(best), "naive_seconds": naive, "ratio": naive / best.stacked_seconds, "task": task, "cohort": cohort,
        "steps": steps, "batch": batch, "device": device,
    }  # fmt: skip
