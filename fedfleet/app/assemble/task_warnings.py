"""Warnings about a person's own model and data: what trains badly though nothing about it is wrong."""

from __future__ import annotations

import numpy as np

from fedfleet.core.errors import FedFleetError
from fedfleet.core.kinds import CLASSIFICATION
from fedfleet.core.parts import Task
from fedfleet.core.records import Ints
from fedfleet.core.trees import Tree

OWN_TASKS = ("own", "table")
_ROWS = 32  # samples that the model is shown
_LARGE = 1e3  # an input beyond it was not scaled
_EXACT = 1e-3  # by how much the sum of probabilities may differ from 1


def task_warnings(task: Task, params: Tree) -> tuple[str, ...]:
    """One sentence for each trait of an own model or of own data that makes training slow or impossible; none for other tasks."""
    if task.name not in OWN_TASKS:
        return ()
    rows = task.client_rows()[:_ROWS]
    return (*_scale_warnings(task, rows), *_softmax_warnings(task, params, rows))


def _scale_warnings(task: Task, rows: Ints) -> tuple[str, ...]:
    x = task.dataset.x[rows]
    if x.dtype.kind != "f" or not x.size or float(np.abs(x).max()) <= _LARGE:
        return ()
    return (
        f"the inputs are not scaled (one of the first {len(rows)} has a value of {float(np.abs(x).max()):,.4g}), and most models "
        "train badly on such inputs; give (x - x.mean(0)) / x.std(0), or divide the pixels of pictures by 255",
    )


def _softmax_warnings(task: Task, params: Tree, rows: Ints) -> tuple[str, ...]:
    """Cross-entropy takes scores: of probabilities it takes the softmax once more, whose gradients nearly vanish."""
    if task.dataset.kind is not CLASSIFICATION or task.loss is not None or task.dataset.classes < 2:
        return ()
    from fedfleet.tasks.task_checks import sample_outputs

    try:
        outputs = sample_outputs(task, params, rows)
    except FedFleetError:  # code that nobody has trusted, which is not run here
        return ()
    if outputs.ndim != 2 or outputs.shape[1] < 2 or (outputs < 0).any() or not np.allclose(outputs.sum(1), 1.0, atol=_EXACT):
        return ()
    return (
        "the model gives probabilities that add up to 1, and cross-entropy needs scores; remove its last layer (Softmax), or give "
        "a loss of your own",
    )
