"""What a private run says about itself: its privacy loss, whether it protects anyone, and where its noise comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.app.runs.folder_seals import stored_measures
from fedfleet.core.events import Event
from fedfleet.core.parts import Algorithm, Plan, Task
from fedfleet.core.trees import Tree
from fedfleet.measure.accuracy import MOST_CLASSES, class_results, confusion_matrix
from fedfleet.measure.privacy import privacy_loss, require_accountant
from fedfleet.measure.task_results import fit_results, label_results, token_results
from fedfleet.store.noise_source import DEVICES, SECRET, SEED, SEEDED, VARIABLE, NoiseSource, key_for, new_source, secret_file

STUDY_WARNING = (
    "the noise of this run comes from its seed, which everyone who has the spec knows: it is a study of privacy and protects "
    f"nobody; noise that protects comes from a secret, whose file {VARIABLE} names"
)
REPORTS_WARNING = (
    "choose: {!r} goes by losses or norms that clients report without noise, and whom it picks shows in every model: the privacy "
    "loss holds for updates, not for what is learnt of these numbers; a selector that does not look at them, such as uniform, "
    "leaves no such gap"
)


def noise_source(algorithm: Algorithm) -> dict[str, str]:
    """Where the noise of a new run comes from; nothing for a run without noise."""
    if algorithm.private is None:
        return {}
    require_accountant()
    return {"from": SEED} if algorithm.fold.noise is None else new_source()


def served_noise_source(source: Mapping[str, str], algorithm: Algorithm) -> dict[str, str]:
    """The same for a served run: noise that clients add comes from the devices, and nobody else knows it."""
    local = algorithm.private is not None and algorithm.private.mechanism == "local"
    return {"from": DEVICES} if local else dict(source)


def noising_of(source: Mapping[str, str], folder: Path) -> NoiseSource:
    """The noise of the run in this folder, which keeps its aggregates if only a secret could make them again."""
    key = key_for(source)
    return SEEDED if key is None else NoiseSource(key, folder)


def secret_missing(source: Mapping[str, str]) -> bool:
    """Does the noise of a run come from a secret that nobody names here?"""
    return source.get("from") == SECRET and secret_file() is None


def with_privacy(measures: dict[str, Any], plan: Plan, source: Mapping[str, str], events: Sequence[Event]) -> dict[str, Any]:
    """The measures of a run, and those of its privacy if it has any."""
    promise = plan.algorithm.private
    if promise is None:
        return measures
    noise_from = source.get("from", SEED)
    warnings = [*measures["warnings"], STUDY_WARNING] if noise_from == SEED else measures["warnings"]
    if plan.choose.by_reports:
        warnings = [*warnings, REPORTS_WARNING.format(plan.choose.name)]
    return {**measures, "warnings": warnings, "privacy": {**privacy_loss(promise, events), "noise_from": noise_from}}


def stored_privacy(folder: Path) -> dict[str, Any]:
    """What the measures of a finished run say about privacy, if they do."""
    result = stored_measures(folder).get("privacy")
    return {"privacy": result} if isinstance(result, dict) else {}


CLASS_KEYS = ("classes", "confusion", "task_results")  # the measures that follow from the model and not from the journal


_ROWS = 256  # sequences that are asked at once


def stored_class_measures(out: Path) -> dict[str, Any]:
    """What the end of this run found by class: it is kept, because it follows from the model and not from the journal."""
    result = stored_measures(out)
    return {key: result[key] for key in CLASS_KEYS if result.get(key)}


def with_class_measures(measures: dict[str, Any], task: Task, params: Tree) -> dict[str, Any]:
    """The measures with results by class and the confusion matrix of this model; of another kind of task, with `task_results`.

    Both are None where there are more classes than a reader could look at, or where a sample has more than one label.
    """
    labels, classes = task.dataset.y[task.holdout], task.dataset.classes
    none = {**measures, "classes": None, "confusion": None}
    if not task.dataset.kind.per_label:
        return {**none, "task_results": _task_results(task, params) if len(labels) else None}
    if classes > MOST_CLASSES or labels.ndim != 1 or not len(labels):
        return none
    from fedfleet.tasks.task_checks import outputs_of

    answers = outputs_of(task, params, task.holdout)
    if answers.ndim != 2 or answers.shape[1] != classes:
        return none
    confusion = confusion_matrix(labels, answers.argmax(1), classes)
    return {**measures, "classes": class_results(confusion, task.dataset.label_names), "confusion": confusion.tolist()}


def _task_results(task: Task, params: Tree) -> Any:
    """What this model gets right and wrong on the central test set, by the kind of its task."""
    from fedfleet.tasks.task_checks import outputs_of

    data, labels = task.dataset, task.dataset.y[task.holdout]
    if data.kind.places:  # batch by batch: the scores of all tokens at all places would not fit
        rows = np.array_split(task.holdout, -(-len(task.holdout) // _ROWS))
        return token_results(labels, np.concatenate([outputs_of(task, params, some).argmax(2) for some in rows]), data.label_names)
    outputs = outputs_of(task, params, task.holdout)
    if data.kind.name == "regression":
        return fit_results(labels, outputs, data.target_scale, data.label_names)
    return label_results(labels, outputs, data.label_names)
