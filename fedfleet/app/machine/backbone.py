"""Making a backbone: a task's model trained in one place, on data disjoint from the task's."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from fedfleet.app.spec.spec_file import apply_overrides
from fedfleet.app.spec.table_checks import Table, build_part, resolve_part
from fedfleet.app.terminal.answers import say
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Dataset, Task
from fedfleet.core.registry import builder, parameters
from fedfleet.store.files import save_tree

GENERATED = "glyphs"
_MADE_UP_SAMPLES = 64  # made-up samples that stand for the task's own where these are not here


def pretrain_task(
    name: str, words: Sequence[str], *, on: str, epochs: int, seed: int, device: Literal["auto", "cpu", "cuda"], out: Path
) -> dict[str, Any]:
    """The answer of `fedfleet pretrain`; the weights are in `out`, with what made them as plain metadata."""
    from fedfleet.executors.hardware import has_cuda, require_cuda
    from fedfleet.tasks.pretraining import pretrain
    from fedfleet.tasks.task import require_torch

    require_torch()
    if device == "cuda":
        require_cuda()
    place = ("cuda" if has_cuda() else "cpu") if device == "auto" else device
    task = _task(name, words, seed)
    data = _data(task, on, seed)
    start = time.perf_counter()
    show_epoch = lambda epoch, accuracy_now: say(f"epoch {epoch} of {epochs}: accuracy {accuracy_now:.3f}")  # noqa: E731
    tree, accuracy = pretrain(task, data, epochs=epochs, seed=seed, device=place, on_epoch=show_epoch)
    seconds = time.perf_counter() - start
    about = {"task": name, "on": on, "epochs": epochs, "seed": seed, "classes": data.classes, "accuracy": accuracy}
    save_tree(out, tree, about)
    return {"accuracy": accuracy, "epochs": epochs, "seconds": seconds, "out": str(out)}


def _task(name: str, words: Sequence[str], seed: int) -> Task:
    """The task, without a backbone of its own: with its data if they are here, else with made-up ones of their shape."""
    task_parameters = parameters(builder("tasks", name, "TASK"))
    settings: Table = {"use": name, **({"backbone": ""} if "backbone" in task_parameters else {}), **apply_overrides({}, words)}
    table = resolve_part("tasks", settings, "TASK")
    recipe = build_part("tasks", table)
    if not getattr(recipe, "here", lambda: True)() and "synthetic" in task_parameters:
        recipe = build_part("tasks", {**table, "synthetic": True, "samples": _MADE_UP_SAMPLES})
    return recipe(seed)


def _data(task: Task, on: str, seed: int) -> Dataset:
    """What is learnt from; refused if any of it is the task's own."""
    shape = task.dataset.x.shape[1:]
    if on == GENERATED:
        from fedfleet.tasks.synthetic import glyphs

        if len(shape) != 3:
            raise BadInput(f"--on glyphs: {task.name} takes samples of shape {shape}, not pictures; name the data of another task")
        return glyphs(shape)
    from fedfleet.tasks.pretraining import common_rows

    data = build_part("tasks", resolve_part("tasks", {"use": on}, "--on"))(seed).dataset
    shared = common_rows(task.dataset, data)
    if shared:
        raise BadInput(
            f"--on {on}: {shared} of its samples are also samples of {task.name}, but a backbone must not train "
            "on the data that will evaluate it; choose other data"
        )
    return data
