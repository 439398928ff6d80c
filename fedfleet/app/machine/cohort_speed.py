"""How fast a cohort trains on this machine, compared with a plain loop over its clients."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache, partial
from typing import Any

from fedfleet.app.assemble.algorithm import adapt_task
from fedfleet.app.spec.spec_file import apply_overrides
from fedfleet.app.spec.table_checks import build_part, resolve_part
from fedfleet.core.errors import BadInput
from fedfleet.core.part_facts import FleetFacts
from fedfleet.core.parts import Task
from fedfleet.core.rng import client_keys
from fedfleet.tasks.narrow_models import shape_at


def synthetic_task(name: str, samples: int) -> Task:
    """A task on synthetic data of its shape, or on its own data if those come with the package, as the digits do."""
    try:
        table = resolve_part("tasks", {"use": name, "synthetic": True, "samples": samples}, "--task")
    except BadInput:
        table = resolve_part("tasks", {"use": name}, "--task")
    return build_part("tasks", table)(0)


def bench_train(
    task: str,
    *,
    cohort: int,
    steps: int,
    batch: int,
    device: str,
    form: str | None,
    tf32: bool,
    algorithm: str = "fedavg",
    settings: Sequence[str] = (),
    repeats: int = 5,
) -> dict[str, Any]:
    """The answer of `fedfleet bench train`; without a form, of the one that is fastest for this model on this machine."""
    from fedfleet.executors.bench import Bench, compare, compare_algorithm
    from fedfleet.executors.stacked.form_choice import candidates

    bench_task = synthetic_task(task, max(200, min(cohort * steps * batch, 20_000)))
    cores = len(os.sched_getaffinity(0))
    forms = [(form, cores)] if form else candidates(device, cores)
    shape: dict[str, Any] = {"cohort": cohort, "steps": steps, "batch": batch, "device": device}
    table = {"use": algorithm, "batch": batch, **apply_overrides({}, settings)}
    fleet = FleetFacts(cache(partial(shape_at, bench_task)), client_keys(cohort))
    method = build_part("algorithms", resolve_part("algorithms", table, "--algorithm"), {FleetFacts: fleet})
    bench_task = adapt_task(method, bench_task, 0)
    benches = [Bench(bench_task, **shape, threads=n, tf32=tf32, form=f, repeats=repeats) for f, n in forms]
    plain = algorithm == "fedavg" and not settings
    results = [compare(bench) if plain else compare_algorithm(bench, method) for bench in benches]
    best = min(results, key=lambda c: c.stacked_seconds)
    naive = min(c.naive_seconds for c in results)
    labels = {"task": task, "algorithm": algorithm, **shape}
    return {**asdict(best), "naive_seconds": naive, "ratio": naive / best.stacked_seconds, **labels}
