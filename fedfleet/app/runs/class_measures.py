"""What the last model of a run does class by class on the central test set, as measures of the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedfleet.app.runs.folder_seals import stored_measures
from fedfleet.core.parts import Task
from fedfleet.core.trees import Tree
from fedfleet.measure.class_counts import MOST_CLASSES, class_results, confusion_matrix

CLASS_KEYS = ("classes", "confusion")  # the measures that follow from the model and not from the journal


def stored_class_measures(out: Path) -> dict[str, Any]:
    """What the end of this run found by class: it is kept, because it follows from the model and not from the journal."""
    result = stored_measures(out)
    return {key: result[key] for key in CLASS_KEYS if result.get(key)}


def with_class_measures(measures: dict[str, Any], task: Task, params: Tree) -> dict[str, Any]:
    """The measures with results by class and the confusion matrix of this model.

    Both are None where there are more classes than a reader could look at, or where a sample has more than one label.
    """
    labels, classes = task.dataset.y[task.holdout], task.dataset.classes
    if classes > MOST_CLASSES or labels.ndim != 1 or not len(labels):
        return {**measures, **dict.fromkeys(CLASS_KEYS)}
    from fedfleet.tasks.task_checks import outputs_of

    answers = outputs_of(task, params, task.holdout)
    if answers.ndim != 2 or answers.shape[1] != classes:
        return {**measures, **dict.fromkeys(CLASS_KEYS)}
    confusion = confusion_matrix(labels, answers.argmax(1), classes)
    return {**measures, "classes": class_results(confusion), "confusion": confusion.tolist()}
