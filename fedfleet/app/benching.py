"""`fedfleet bench train`: how fast does a cohort train here, against the loop that everybody writes?"""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from fedfleet.app.tables import build_part, resolve_part
from fedfleet.core.errors import BadInput


def bench_train(
    task: str, *, cohort: int, steps: int, batch: int, device: str, form: str | None, tf32: bool, repeats: int = 5
) -> dict[str, Any]:
    """The contract of `fedfleet bench train`; without a form, the fastest one for this model here."""
    from fedfleet.run.executors.bench import compare
    from fedfleet.run.executors.stacked.forms import candidates

    table = {"use": task}
    samples = max(200, min(cohort * steps * batch, 20_000))
    try:
        resolved = resolve_part("tasks", {**table, "synthetic": True, "samples": samples}, "--task")
    except BadInput:
        resolved = resolve_part("tasks", table, "--task")  # a task with its own data, such as the embedded digits
    built = build_part("tasks", resolved)(0)
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
