"""The executor that [run] names."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from fedfleet.app.assemble.setup import pin_frozen_weights
from fedfleet.app.spec import Spec
from fedfleet.app.spec.table_checks import Table
from fedfleet.core.engines import require_engine
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Executor, Task

if TYPE_CHECKING:
    from fedfleet.executors.stacked.form_choice import Form

THREADS_A_CORE, _THREADS = 8, 128  # more only wait for each other; but a run of a larger machine may be replayed here


def check_executor(spec: Spec) -> None:
    """Refuse an executor that cannot run this spec here, before anything is built or written."""
    if spec.run["device"] == "cuda":
        _check_cuda(spec.run)
    most = max(_THREADS, THREADS_A_CORE * (os.cpu_count() or 1))
    if spec.run["threads"] > most:
        raise BadInput(
            f"run.threads = {spec.run['threads']}: this machine has {os.cpu_count()} processors; use {most} threads at most"
        )
    if spec.run["execute"] == "mnn":
        require_engine("mnn")
    if spec.run["execute"] != "ray":
        return
    if spec.edge is not None:
        raise BadInput('run.execute = "ray" cannot run the devices behind an [edge] yet; use inline or stacked')
    from fedfleet.executors.ray_cluster import require_ray

    require_ray(spec.run["ray_address"])
    if spec.has_custom_task:
        raise BadInput(
            'run.execute = "ray" cannot train your own model object, because workers rebuild the task from the spec; '
            'register it as a task of an installed package, or use run.execute = "inline"'
        )


def _check_cuda(run: Table) -> None:
    """Refuse a GPU that is not there, or that no executor would use."""
    if run["ray_address"] is None:  # the machines of a cluster may have what this one lacks
        from fedfleet.executors.hardware import require_cuda

        require_cuda()
    if "stacked" not in (run["execute"], run["ray_execute"] if run["execute"] == "ray" else ""):
        raise BadInput(f'run.device = "cuda": run.execute = "{run["execute"]}" trains on the CPU; set run.execute = "stacked"')


def make_executor(spec: Spec, task: Task, form: Form | None = None) -> Executor:
    """The executor that [run] names; `auto` is inline. `form` is the stacked form that a run began with; else it is chosen now."""
    from fedfleet.executors.edge_turns import nested_executor as edges
    from fedfleet.executors.inline import inline

    run = spec.run
    if spec.edge is not None and run["execute"] != "ray":
        return edges(make_executor(replace(spec, edge=None), task, form))
    inline_executor = inline(task, threads=run["threads"])
    match run["execute"]:
        case "stacked":
            from fedfleet.executors.stacked.executor import stacked_executor

            form = form or fastest_form(spec, task)
            # A loss of the person's own may do what a recording cannot repeat, such as look at a value.
            graphs = task.loss is None
            return stacked_executor(
                task, device=run["device"], threads=form.threads, form=form.name, tf32=run["tf32"], graphs=graphs
            )
        case "ray":
            from fedfleet.executors.ray import ray_executor
            from fedfleet.executors.worker_jobs import Recipe

            recipe = Recipe("fedfleet.app.assemble:rebuild_for_worker", pin_frozen_weights(spec.toml(), task))
            gpus = 1 if run["ray_execute"] == "stacked" and run["device"] == "cuda" else 0
            return ray_executor(
                recipe, inline_executor, workers=run["workers"], address=run["ray_address"], threads=run["threads"], gpus=gpus
            )
        case "numpy" | "mnn" as engine:
            from fedfleet.executors.described_executor import described_executor

            return described_executor(engine, task, threads=run["threads"])
        case _:
            return inline_executor


def fastest_form(spec: Spec, task: Task) -> Form:
    """The stacked form that is fastest for this model on this machine."""
    from fedfleet.executors.stacked.form_choice import choose_form

    return choose_form(task, device=spec.run["device"], threads=spec.run["threads"])
