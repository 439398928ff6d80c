"""Warnings about a person's own data: what trains badly though nothing about it is wrong."""

from __future__ import annotations

import numpy as np

from fedfleet.core.parts import Task
from fedfleet.tasks.user_data.scale import magnitude_warning

OWN_TASKS = ("own", "table")
_ROWS = 10_000  # samples that are looked at
_LARGE = 1e3  # an input beyond it was not scaled


def task_warnings(task: Task) -> tuple[str, ...]:
    """One sentence if inputs of a person's own were never scaled, which makes training slow or impossible; none for other tasks."""
    x = task.dataset.x[task.client_rows()[:_ROWS]] if task.name in OWN_TASKS else np.zeros(0, np.float32)
    if x.dtype.kind != "f" or not x.size:
        return ()
    unlike = magnitude_warning(x, task.dataset.input_names)
    if unlike is not None:
        return (unlike,)
    largest = float(np.abs(x).max())
    if largest <= _LARGE:
        return ()
    return (
        f"the inputs are not scaled (one of the first {len(x):,} has a value of {largest:,.4g}), and most models train badly on "
        "such inputs; give (x - x.mean(0)) / x.std(0), or divide the pixels of pictures by 255",
    )
