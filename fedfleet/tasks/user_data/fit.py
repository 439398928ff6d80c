"""Samples of one device brought into the form of a run: its columns, its numbers for labels, its scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedfleet.core.errors import BadInput, CurableInput, printable, suggest_name
from fedfleet.core.kinds import CLASSIFICATION, REGRESSION, Kind
from fedfleet.core.parts import Dataset
from fedfleet.core.records import Floats
from fedfleet.core.trees import Array
from fedfleet.tasks.user_data.columns import UnknownColumn, listed
from fedfleet.tasks.user_data.samples import OwnData, data


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """How a run reads samples: the kind of task, the shape of one sample, the columns of its inputs and the names of its labels in
    order, how missing values are treated, and what is taken out of inputs and of numbers to predict."""

    kind: Kind
    shape: tuple[int, ...]
    classes: int
    columns: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    label: str | Sequence[str] | None = None
    missing: str = "error"
    context: int = 32
    scale: tuple[Floats, Floats] | None = None
    target_scale: tuple[tuple[float, float], ...] = ()


def fit_samples(path: Path, plan: ColumnPlan) -> Dataset:
    """The samples of a file or folder as the run's model takes them; what does not fit is named."""
    label = plan.label
    if label is None and plan.columns and plan.kind is not CLASSIFICATION and plan.labels:
        label = list(plan.labels)
    try:
        own = data(
            path, input=_table_columns(plan.columns) or None, label=label, kind=plan.kind.name, missing=_missing(plan.missing),
            context=plan.context,
        )  # fmt: skip
    except UnknownColumn as error:
        what = "which this run's model reads" if error.what == "input" else "which has this run's labels"
        raise BadInput(f"--data: {path} has no column {error.column!r}, {what}{error.hint}") from None
    except BadInput as error:
        raise BadInput(f"--data: {_for_owner_of_device(error)}") from None
    if own.vocabulary and plan.labels:
        own = _with_tokens_of_run(own, plan, path)
    x = _align(own, plan, path)
    if x.shape[1:] != plan.shape:
        raise BadInput(
            f"--data: {path}: a sample has the shape {x.shape[1:]}, and this run's model takes {plan.shape}; convert the samples"
        )
    y = _number_labels(own, plan, path)
    if plan.scale is not None:
        x = (x.astype(np.float64) - plan.scale[0]) / plan.scale[1]
    if plan.kind is REGRESSION and plan.target_scale:
        mean, sd = np.array(plan.target_scale).T
        y = ((y.astype(np.float64) - mean) / sd).astype(np.float32)
    x = x if plan.kind.places and x.dtype.kind in "iu" else x.astype(np.float32)
    return Dataset(
        x, y, plan.classes, kind=plan.kind, label_names=plan.labels, input_names=plan.columns, target_scale=plan.target_scale
    )


def _for_owner_of_device(error: BadInput) -> str:
    """What is wrong with samples, with what the owner of a device can do: the run decides which columns are read, and how."""
    text = str(error).removeprefix("data: ").replace(", or leave it out of input=[..]", "")
    if isinstance(error, CurableInput) and "missing" in error.cure:
        return f"{text.partition('; ')[0]}; fill them in, or leave these samples out"
    return text


def _missing(rule: str):
    return rule if rule in ("drop", "mean") else "error"


def _table_columns(names: Sequence[str]) -> list[str]:
    """The columns of the table behind the inputs: `colour=red` and `colour=blue` come from `colour`."""
    return list(dict.fromkeys(name.partition("=")[0] for name in names))


def _align(own: OwnData, plan: ColumnPlan, path: Path) -> Array:
    """The inputs in the run's order of columns. A value that the run does not know is refused; one that is not here is 0."""
    if not plan.columns or own.inputs == plan.columns:
        return own.x
    place = {name: i for i, name in enumerate(own.inputs)}
    for name in plan.columns:
        if name not in place and "=" not in name:
            texts = [one for one in own.inputs if one.startswith(f"{name}=")]
            if texts:
                raise BadInput(
                    f"--data: {path}: the column {name!r} holds text, such as {texts[0].partition('=')[2]!r}, and this run's model "
                    "reads numbers there; correct these cells"
                )
            raise BadInput(f"--data: {path} has no column {name!r}, which this run's model reads{suggest_name(name, own.inputs)}")
    odd = next((name for name in own.inputs if name not in plan.columns), None)
    if odd is not None:
        raise BadInput(f"--data: {path}: {odd} is a value that this run does not know; correct it, or drop these samples")
    x = np.zeros((len(own.x), len(plan.columns)), np.float64)
    for i, name in enumerate(plan.columns):
        if name in place:
            x[:, i] = own.x[:, place[name]]
    return x


def _with_tokens_of_run(own: OwnData, plan: ColumnPlan, path: Path) -> OwnData:
    """The same text with the run's numbers for characters: a device has others, in an order of its own."""
    number = {character: i for i, character in enumerate(plan.labels)}
    unknown = [character for character in own.vocabulary if character not in number]
    if unknown:
        raise BadInput(
            f"--data: {path}: the character {unknown[0]!r} is not one that this run's model knows; replace it, or leave it out"
        )
    table = np.array([number[character] for character in own.vocabulary], np.int64)
    return replace(own, x=table[own.x], y=table[own.y], labels=plan.labels, vocabulary=plan.labels)


def _number_labels(own: OwnData, plan: ColumnPlan, path: Path) -> Array:
    """The labels with the run's numbers."""
    if plan.kind is CLASSIFICATION:
        # Numbers have no names where all of 0, 1, .. are there; a device that has some of them alone calls them by their names.
        known = plan.labels or tuple(map(str, range(plan.classes)))
        names = own.labels or tuple(str(i) for i in range(int(own.y.max()) + 1))
        number = {name: i for i, name in enumerate(known)}
        unknown = sorted({names[i] for i in np.unique(own.y)} - number.keys())
        if unknown:
            raise BadInput(
                f"--data: {path}: the label {printable(unknown[0], 40)!r} is not one of this run, whose labels are "
                f"{listed(known)}; correct it, or leave these samples out"
            )
        return np.array([number.get(name, 0) for name in names], np.int64)[own.y]
    y = own.y
    most = int(y.max(initial=0)) + 1 if y.dtype.kind in "iu" else y.shape[1]
    if most > plan.classes or (y.dtype.kind not in "iu" and most != plan.classes):
        raise BadInput(f"--data: {path} has {most} labels or outputs, and this run has {plan.classes}; give the same ones")
    return y
