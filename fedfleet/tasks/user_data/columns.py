"""Columns of a table that somebody else's library holds, such as a Hugging Face dataset, as inputs, labels and owners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput, suggest_name
from fedfleet.core.trees import Array

LABELS = ("label", "labels", "y", "class", "target", "activity", "fine_label")
INPUTS = ("x", "image", "img", "features", "input", "inputs", "pixel_values", "data", "signal")


@dataclass(frozen=True, slots=True)
class RawData:
    """What was found before it is checked; `labels` are names that the source itself has for its label numbers, `columns` those
    of the inputs."""

    x: Any
    y: Any
    owner: Sequence[Any] | None
    labels: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


def from_columns(source: Any, inputs: list[str] | None, label: str | None, owner: str | None) -> RawData:
    """The named columns of an object with `column_names` (Hugging Face) or `columns` (pandas)."""
    keys = _keys(source)
    names = list(keys)
    y_name = label_column(names, label)
    if owner is not None:
        check_column(names, owner, "owner")
    input_names = inputs or _guess_inputs(source, keys, {y_name, owner})
    for name in input_names:
        check_column(names, name, "input")
    if y_name in input_names:
        raise BadInput(f"data: the column {y_name!r} cannot be both input and label; name others with input=.. and label=..")
    columns = [as_array(source[keys[name]], name) for name in input_names]
    x = (
        columns[0]
        if len(columns) == 1 and columns[0].ndim > 1
        else np.stack([_flat_column(c, n) for c, n in zip(columns, input_names, strict=True)], 1)
    )
    people = None if owner is None else _owners(source[keys[owner]], owner)
    return RawData(x, list(source[keys[y_name]]), people, _label_names(source, y_name), tuple(input_names))


def label_column(names: Sequence[str], wanted: str | None, *, last: bool = False) -> str:
    """The column of labels: as asked, or called so; `last`: else the last one."""
    if wanted is not None:
        check_column(names, wanted, "label")
        return wanted
    matches = [name for word in LABELS for name in names if name.strip().lower() == word]
    if matches:
        return matches[0]
    if last and names:
        return names[-1]
    raise BadInput(f"data: none of the columns {', '.join(names)} is called label; name the column of labels with label=..")


def check_column(names: Sequence[str], column: str, what: str) -> None:
    """Refuse a column that is not there."""
    if column not in names:
        raise BadInput(f"data: {what}={column!r} is not one of the columns {', '.join(names)}{suggest_name(column, names)}")


def as_array(column: Any, name: str) -> Array:
    """A column as numbers, a row for each sample; pictures become channels first, from 0 to 1."""
    values = column if isinstance(column, np.ndarray) else list(column)
    if len(values) == 0:
        raise BadInput(f"data: the column {name!r} is empty; give at least one sample")
    if isinstance(values[0], str | bytes):
        raise BadInput(
            f"data: the inputs in column {name!r} are text; convert them into numbers first, or name another with input=.."
        )
    picture = hasattr(values[0], "getbands")  # pictures of PIL, which datasets decode to
    rows = values if isinstance(values, np.ndarray) and values.dtype != object else [_row(v, i, name) for i, v in enumerate(values)]
    shapes = [np.shape(row) for row in rows] if isinstance(rows, list) else []
    odd = next((i for i, shape in enumerate(shapes) if shape != shapes[0]), None)
    if odd is not None:
        raise BadInput(
            f"data: column {name!r}: sample {odd} has the shape {shapes[odd]}, but sample 0 has {shapes[0]}; give "
            "all samples the same shape"
        )
    x = np.asarray(rows)
    if not picture:
        return x
    return np.moveaxis(x, -1, 1).astype(np.float32) / 255.0 if x.ndim == 4 else x[:, None].astype(np.float32) / 255.0


def _row(value: Any, i: int, name: str) -> Array:
    if value is None:
        raise BadInput(f"data: column {name!r}: sample {i} is empty; fill it in or delete it")
    try:
        row = np.asarray(value)
    except ValueError:
        raise BadInput(f"data: column {name!r}: sample {i} has rows of different length; give all rows the same length") from None
    if row.dtype.kind not in "fiub":
        raise BadInput(
            f"data: column {name!r}: sample {i} is not an array of numbers but {str(value)[:40]!r}; convert it into numbers first"
        )
    return row


def _keys(source: Any) -> dict[str, Any]:
    """How the table itself calls each column; pandas numbers those that nobody named."""
    names = getattr(source, "column_names", None)
    names = getattr(source, "columns", None) if names is None else names
    if isinstance(names, Mapping):
        first = next(iter(names), "train")
        raise BadInput(f"data: this contains the splits {', '.join(map(str, names))}; give one of them, such as dataset[{first!r}]")
    if names is None or not hasattr(source, "__len__"):
        kind = type(source).__name__
        raise BadInput(
            f"data: {kind} cannot be read; give a folder, a file, a table with columns that is completely in "
            "memory (not streaming), or give arrays to fedfleet.run: data=(inputs, labels)"
        )
    return {str(name): name for name in names}


def _guess_inputs(source: Any, keys: Mapping[str, Any], taken: set[str | None]) -> list[str]:
    """A column that is called so, the only one that is left, or all that are left where each holds one number a sample."""
    remaining = [name for name in keys if name not in taken]
    matches = [name for word in INPUTS for name in remaining if name.lower() == word]
    if matches:
        return matches[:1]
    if len(remaining) == 1 or (remaining and len(source) and all(_is_number(source[keys[name]]) for name in remaining)):
        return remaining
    raise BadInput(f"data: which of the columns {', '.join(remaining) or '(none is left)'} are the inputs? name them with input=..")


def _is_number(column: Any) -> bool:
    first = np.asarray(next(iter(column)))
    return first.ndim == 0 and first.dtype.kind in "fiub"


def _flat_column(column: Array, name: str) -> Array:
    if column.ndim != 1:
        raise BadInput(
            f"data: the column {name!r} contains arrays of shape {column.shape[1:]}; give it as the only input: input={name!r}"
        )
    return column


def _owners(column: Any, name: str) -> list[Any]:
    people = list(column)
    empty = next((i for i, who in enumerate(people) if who is None or who != who), None)
    if empty is not None:
        raise BadInput(f"data: column {name!r}: sample {empty} has no owner; name the owner of each sample, or delete the sample")
    return people


def _label_names(source: Any, name: str) -> tuple[str, ...]:
    """The names that a dataset's own features have for the numbers of its labels."""
    features = getattr(source, "features", None)
    names = getattr(features[name], "names", None) if isinstance(features, Mapping) and name in features else None
    return tuple(map(str, names)) if names else ()
