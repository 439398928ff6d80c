"""Arrays before anything is trained: which kind of task they make, and each mistake in one sentence with its cure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.kinds import (
    CLASSIFICATION,
    IGNORED,
    KINDS,
    MULTILABEL,
    NEXT_TOKEN,
    REGRESSION,
    SEQUENCE_LABELS,
    Kind,
)
from fedfleet.core.parts import Dataset
from fedfleet.core.records import Ints
from fedfleet.core.trees import Array

_MOST_CLASSES = 2**31


def checked_data(data: Any, kind: str = "auto") -> Dataset:
    """The arrays as a dataset: (inputs, labels) or (inputs, labels, owners).

    `kind` names the kind of task; "auto" goes by the labels, and by what data that were read say of themselves.
    """
    read, said = getattr(data, "dataset", None), getattr(data, "kind", None)
    if callable(read) and isinstance(said, Kind) and kind in ("auto", said.name):  # what fedfleet.data read is checked already
        return cast("Dataset", read())
    if not isinstance(data, Sequence) or isinstance(data, str | bytes) or len(data) not in (2, 3):
        given = f"{len(data)} things" if isinstance(data, list | tuple) else f"a {type(data).__name__}"
        raise BadInput(f"data must be (inputs, labels) or (inputs, labels, owners), each an array; got {given}")
    raw, labels = as_array(data[0], "inputs"), as_array(data[1], "labels")
    if raw.ndim == 1 and labels.ndim >= 2 and len(raw) == len(labels):
        raise BadInput(
            f"data: the inputs have one value for each sample and the labels {labels[0].size}; give (inputs, labels) in this "
            "order, or inputs of shape (samples, 1)"
        )
    inputs = checked_inputs(raw)
    if labels.ndim == 0:
        raise BadInput(f"data: the labels are one value, {labels}; give as many labels as inputs, {len(raw)}")
    y, classes, found = checked_targets(labels, raw, kind)
    x = checked_tokens(raw) if found.places and raw.dtype.kind in "iu" and raw.ndim == 2 else inputs
    return Dataset(x, y, classes, checked_owners(data[2], len(x)) if len(data) == 3 else None, found)


def checked_tokens(x: Array) -> Array:
    """Inputs that are tokens: whole numbers from 0."""
    if int(x.min()) < 0 or int(x.max()) >= _MOST_CLASSES:
        row = int(np.argmax(((x < 0) | (x >= _MOST_CLASSES)).any(1)))
        raise BadInput(f"data: the inputs in row {row} hold a token out of range; number the tokens 0, 1, ..")
    return x.astype(np.int64)


def checked_inputs(values: Any) -> Array:
    """Inputs as float32, one row for each sample; all of them finite."""
    x = as_array(values, "inputs")
    if x.dtype.kind in "USO" and x.ndim >= 2:
        raise BadInput(
            f"data: the inputs are text or objects ({x.dtype}) of shape {x.shape}; give numbers, for example with "
            "x.astype(float), and encode words as numbers"
        )
    if x.dtype.kind not in "fiub" or x.ndim < 2 or not x.size:
        raise BadInput(
            f"data: the inputs are {x.dtype} of shape {x.shape}; give numbers with one row for each sample, such as (1000, 20)"
        )
    with np.errstate(over="ignore"):  # too large for float32 becomes infinite, and is named below
        x = x.astype(np.float32)
    bad_rows = np.flatnonzero(~np.isfinite(x.reshape(len(x), -1)).all(1))
    if len(bad_rows):
        raise BadInput(
            f"data: {len(bad_rows)} of {len(x)} inputs hold values that are not finite in float32 (NaN or infinite), the first of "
            f"them in row {bad_rows[0]}; fill or drop them"
        )
    return x


def checked_owners(values: Any, samples: int) -> Ints:
    """Who made each sample, as numbers 0, 1, .. in the order of the sorted names."""
    owner = as_array(values, "owners")
    if owner.shape != (samples,):
        raise BadInput(f"data: {samples} inputs need as many owners, one each; got an array of shape {owner.shape}")
    if owner.dtype.kind == "f" and not np.isfinite(owner).all():
        row = int(np.argmin(np.isfinite(owner)))
        raise BadInput(f"data: the owner in row {row} is {owner[row]}; give the owner of each sample, by name or number")
    try:
        return np.unique(owner, return_inverse=True)[1].astype(np.int64)
    except TypeError:
        raise BadInput("data: the owners mix names and numbers; give all of them as one or the other") from None


def kind_of_labels(y: Array, x: Array) -> Kind:
    """The kind of task that these labels make: fractions are numbers to predict, rows of truth values are several labels at once,
    rows of whole numbers as long as the inputs are sequences; everything else is classes.

    >>> kind_of_labels(np.array([0.5, 1.0]), np.zeros((2, 3))).name, kind_of_labels(np.array([0, 1]), np.zeros((2, 3))).name
    ('regression', 'classification')
    >>> text = np.array([[1, 2, 3]])
    >>> kind_of_labels(text[:, 1:], text[:, :-1]).name
    'next_token'
    """
    if y.ndim != 2 or y.dtype.kind not in "iufb":
        fractions = y.ndim == 1 and y.dtype.kind == "f" and bool((np.isfinite(y) & (y != np.rint(y))).any())
        return REGRESSION if fractions else CLASSIFICATION
    if y.dtype.kind == "b":
        return MULTILABEL
    if y.dtype.kind in "iu" and x.ndim >= 2 and y.shape == x.shape[:2]:
        shifted = x.ndim == 2 and x.dtype.kind in "iu" and np.array_equal(y[:, :-1], x[:, 1:])
        return NEXT_TOKEN if shifted else SEQUENCE_LABELS
    if y.shape[1] > 1 and np.isin(y, (0, 1)).all():
        # Exactly one in each row: classes that somebody encoded, which is refused with the cure.
        return CLASSIFICATION if (y.sum(1) == 1).all() else MULTILABEL
    return REGRESSION if y.dtype.kind == "f" else CLASSIFICATION


def checked_targets(values: Any, x: Array, kind: str = "auto") -> tuple[Array, int, Kind]:
    """The labels in the form of their kind, how many classes, labels or outputs there are, and the kind."""
    y = as_array(values, "labels")
    if kind != "auto" and kind not in KINDS:
        raise BadInput(f"kind = {kind!r} is not a kind of task; the kinds are auto, {', '.join(KINDS)}")
    chosen = kind_of_labels(y, x) if kind == "auto" else KINDS[kind]
    if chosen is CLASSIFICATION:
        classes = checked_labels(y, len(x))
        return classes, int(classes.max()) + 1, chosen
    if len(y) != len(x):
        raise BadInput(f"data: {len(x)} inputs need as many labels, one row each; got {len(y)}")
    if chosen is REGRESSION:
        numbers = checked_numbers(y)
        return numbers, numbers.shape[1], chosen
    if chosen is MULTILABEL:
        flags = checked_flags(y)
        return flags, flags.shape[1], chosen
    return checked_places(y, x, chosen)


def checked_numbers(y: Array) -> Array:
    """Numbers to predict, float32, one row for each sample."""
    if y.dtype.kind not in "iufb" or y.ndim not in (1, 2) or not y.size:
        raise BadInput(
            f"data: the labels are {y.dtype} of shape {y.shape}; a regression needs numbers, one for each sample, or a row of them"
        )
    with np.errstate(over="ignore"):  # what is too large for float32 becomes infinite, and is named below
        numbers = y.astype(np.float32).reshape(len(y), -1)
    odd = np.flatnonzero(~np.isfinite(numbers).all(1))
    if len(odd):
        raise BadInput(
            f"data: {len(odd)} of {len(y)} labels are not finite in float32 (NaN or infinite), the first of them in row {odd[0]}; "
            "drop these samples"
        )
    return numbers


def checked_flags(y: Array) -> Array:
    """Which labels each sample has, as truth values, one row for each sample."""
    if y.ndim != 2 or y.dtype.kind not in "iufb" or not np.isin(y, (0, 1)).all():
        raise BadInput(
            f"data: the labels are {y.dtype} of shape {y.shape}; several labels at once need a row of 0 and 1 for each sample, one "
            "for each label"
        )
    return y.astype(np.bool_)


def checked_places(y: Array, x: Array, kind: Kind) -> tuple[Array, int, Kind]:
    """A class for every place of a sequence; what is IGNORED counts for nothing."""
    if y.ndim != 2 or y.dtype.kind not in "iu" or y.shape[1:] != x.shape[1:2]:
        raise BadInput(
            f"data: the labels are {y.dtype} of shape {y.shape}, the inputs of shape {x.shape}; {kind.name} needs whole numbers, "
            f"one for every place of an input, {IGNORED} where nothing counts"
        )
    counted = y != IGNORED
    if not counted.any():
        raise BadInput(f"data: every label is {IGNORED}, which counts for nothing; give at least one class")
    if int(y[counted].min()) < 0 or int(y[counted].max()) >= _MOST_CLASSES:
        row = int(np.argmax((counted & ((y < 0) | (y >= _MOST_CLASSES))).any(1)))
        raise BadInput(
            f"data: row {row} has a label out of range; number the classes 0, 1, .., with {IGNORED} where nothing counts"
        )
    classes = int(y[counted].max()) + 1
    if kind is NEXT_TOKEN:  # a model knows all tokens that it reads, whether they are ever next or not
        classes = max(classes, int(x.max()) + 1)
    return y.astype(np.int64), classes, kind


def checked_labels(values: Any, samples: int) -> Ints:
    """Labels as whole numbers from 0, one for each sample."""
    y = as_array(values, "labels")
    if y.ndim != 1:
        cure = "labels.argmax(1)" if y.ndim == 2 and y.shape[1] > 1 else "labels.ravel()"
        raise BadInput(
            f"data: the labels have shape {y.shape}; give as many labels as inputs, {samples} integers in a row, for example {cure}"
        )
    if len(y) != samples:
        raise BadInput(f"data: {samples} inputs need as many labels, one each; got {len(y)}")
    if y.dtype.kind == "f" and np.isnan(y).any():
        nan_rows = np.flatnonzero(np.isnan(y))
        raise BadInput(
            f"data: {len(nan_rows)} of {samples} labels are NaN, the first of them in row {nan_rows[0]}; drop these samples"
        )
    if y.dtype.kind not in "iu":
        raise BadInput(
            f"data: the labels are {y.dtype}, not integers; number the classes 0, 1, .., for example with "
            'np.unique(labels, return_inverse=True)[1], or give kind="regression" if they are numbers to predict'
        )
    if int(y.min()) < 0 or int(y.max()) >= _MOST_CLASSES:
        row = int(np.argmax((y < 0) | (y >= _MOST_CLASSES)))
        raise BadInput(f"data: the label in row {row} is {y[row]}, out of range; number the classes 0, 1, ..")
    return y.astype(np.int64)


def as_array(values: Any, what: str) -> Array:
    """Values as an array; `what` names them in a refusal."""
    try:
        return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise BadInput(f"data: the {what} are not an array: {error_line(error)}; give rows of equal length") from None


def error_line(error: Exception) -> str:
    """An error of the user's code, in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"
