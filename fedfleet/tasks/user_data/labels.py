"""What is to be predicted, and the kind of task that it makes: classes, numbers, or several labels at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedfleet.core.errors import BadInput, printable
from fedfleet.core.kinds import CLASSIFICATION, KINDS, MULTILABEL, REGRESSION, Kind
from fedfleet.core.trees import Array
from fedfleet.tasks.data_checks import checked_targets
from fedfleet.tasks.user_data.columns import COMMA_NUMBER, NUMBER, Column, flag_values, is_flag, odd_cell, refuse_odd_number
from fedfleet.tasks.user_data.raw_samples import as_names

# What is said of numbers with decimals, which are a regression beyond doubt: people who watch a run need no warning of it.
OBVIOUS = "has numbers with decimals"
MOST_CLASSES = 1000  # different whole numbers that are still taken for classes
Place = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels as `core.kinds` lays them out, and the names behind them."""

    y: Array
    names: tuple[str, ...]
    kind: Kind
    warnings: tuple[str, ...] = ()


def encode_labels(columns: tuple[Column, ...], x: Array, kind: str, place: Place) -> Labels:
    """The labels of samples of which none is missing. `kind` is "auto" or the name of a kind of task."""
    column, *others = columns
    if others:
        return _several(columns, kind, place)
    if column.values.ndim > 1 or kind in ("next_token", "sequence_labels"):
        y, classes, found = checked_targets(column.values, x, kind)
        return Labels(y, (column.name,) if found is REGRESSION and classes == 1 else (), found)
    if kind == "multilabel":
        return Labels(_flags(columns, place), (column.name,), MULTILABEL)
    if column.names is not None:
        return _named_classes(column, kind, place)
    if column.values.dtype.kind not in "fiub":
        raise BadInput(f"data: the labels in column {column.name!r} cannot be read; give numbers or names of classes")
    return _numbers(column, kind, place)


def _named_classes(column: Column, kind: str, place: Place) -> Labels:
    if kind == "regression":
        odd = odd_cell(column, lambda name: False) or (0, "")
        raise BadInput(
            f"data: {place(odd[0])}, column {column.name}: {printable(odd[1], 40)!r} is not a number, which a regression "
            f"predicts; name another "
            'column with label=.., or use kind = "classification"'
        )
    names: tuple[str, ...] = column.words
    if not column.fixed:
        if any(_is_fraction(name) for name in names):  # else hundreds of classes, for one number that is misspelt
            refuse_odd_number(column, place, "correct it, or name another column with label=..")
        used = np.unique(column.values)
        names, values = tuple(names[i] for i in used), np.searchsorted(used, column.values)
    else:
        values = column.values
    warnings: list[str] = []
    if len(names) > max(MOST_CLASSES, 1) and not column.fixed:
        warnings.append(
            f"data: the label {column.name!r} has {len(names):,} different names; name another column with label=.. if these are "
            f"no classes"
        )
    return Labels(values.astype(np.int64), names, CLASSIFICATION, (*warnings, *_of_one_class(values, names, column.name)))


def _is_fraction(name: str) -> bool:
    return COMMA_NUMBER.fullmatch(name) is not None or (NUMBER.fullmatch(name) is not None and float(name) % 1 != 0)


def _numbers(column: Column, kind: str, place: Place) -> Labels:
    values = column.values.astype(np.float64)
    infinite = np.flatnonzero(~np.isfinite(values))
    if len(infinite):
        raise BadInput(
            f"data: {place(int(infinite[0]))}, column {column.name}: the label is {values[infinite[0]]}, not a finite number; "
            f"correct it"
        )
    fraction = np.flatnonzero(values != np.rint(values))
    if kind == "regression":
        return Labels(checked_targets(values, values[:, None], "regression")[0], (column.name,), REGRESSION)
    if kind == "classification" and len(fraction):
        first = int(fraction[0])
        raise BadInput(
            f"data: {place(first)}, column {column.name}: label {first} is {values[first]}, but classes are whole numbers or "
            f"names; name another "
            'column with label=.., or use kind = "regression"'
        )
    different = np.unique(values)
    if kind == "auto" and (len(fraction) or len(different) > MOST_CLASSES):
        why = OBVIOUS if len(fraction) else "has numbers"
        example = f"such as {values[fraction[0]]:g}" if len(fraction) else f"{len(different):,} different whole numbers"
        other = 'kind = "classification"' if not len(fraction) else "a label=.. of whole numbers or names"
        sentence = f"data: the label {column.name!r} {why} ({example}), so this is a regression; for classes, use {other}"
        return Labels(checked_targets(values, values[:, None], "regression")[0], (column.name,), REGRESSION, (sentence,))
    if np.array_equal(different, np.arange(len(different))):
        return Labels(values.astype(np.int64), (), CLASSIFICATION, _of_one_class(values, (), column.name))
    named = as_names(column)
    names = named.words
    shown = f"{', '.join(names[:5])}{', ..' if len(names) > 5 else ''}"
    sentence = f"data: the labels in {column.name!r} are not 0 to {len(names) - 1}; they are the names of classes: {shown}"
    return Labels(named.values, names, CLASSIFICATION, (sentence, *_of_one_class(values, names, column.name)))


def _of_one_class(values: Array, names: tuple[str, ...], column: str) -> tuple[str, ...]:
    """A warning where there is nothing to tell apart."""
    if len(values) < 2 or (values != values[0]).any():
        return ()
    label = names[int(values[0])] if names and int(values[0]) < len(names) else f"{values[0]:g}"
    return (
        f"data: all {len(values):,} samples have the label {printable(label, 40)!r} in {column!r}; name another column with "
        f"label=..",
    )


def _several(columns: tuple[Column, ...], kind: str, place: Place) -> Labels:
    names = tuple(column.name for column in columns)
    if kind not in ("auto", "regression", "multilabel"):
        raise BadInput(
            f"data: {len(columns)} columns of labels make a regression or a multilabel task, not {kind}; name one column with "
            f"label=.."
        )
    if kind == "multilabel" or (kind == "auto" and all(map(_is_flag_column, columns))):
        y = _flags(columns, place)
        single = (
            "data: every sample has exactly one of the labels; if they exclude each other, give one column of classes instead"
            if (y.sum(1) == 1).all() and len(y) > 1
            else ""
        )
        return Labels(y, names, MULTILABEL, (single,) if single else ())
    for column in columns:
        if column.names is not None:
            refuse_odd_number(column, place, "correct it")
            row, text = odd_cell(column, lambda name: False) or (0, "")
            raise BadInput(
                f"data: {place(row)}, column {column.name}: {printable(text, 40)!r} is not a number; several columns of labels "
                f"hold numbers, or yes "
                "and no (0 and 1)"
            )
    y = np.stack([column.values.astype(np.float64) for column in columns], 1)
    return Labels(checked_targets(y, y, "regression")[0], names, REGRESSION)


def _is_flag_column(column: Column) -> bool:
    if column.names is not None:
        return all(map(is_flag, column.names))
    return column.values.ndim == 1 and bool(np.isin(column.values, (0, 1)).all())


def _flags(columns: tuple[Column, ...], place: Place) -> Array:
    for column in columns:
        if not _is_flag_column(column):
            if column.names is not None:
                row, text = odd_cell(column, is_flag) or (0, "")
            else:
                row = int(np.flatnonzero(~np.isin(column.values, (0, 1)))[0])
                text = f"{column.values[row]:g}"
            raise BadInput(
                f"data: {place(row)}, column {column.name}: {printable(text, 40)!r} is not 0, 1, yes or no, which tell whether a "
                f"label applies; "
                "name other columns with label=[..]"
            )
    flags = [flag_values(column) if column.names is not None else column.values for column in columns]
    return np.stack(flags, 1).astype(bool)


def check_kind(kind: str) -> None:
    """Refuse a kind of task that does not exist."""
    if kind != "auto" and kind not in KINDS:
        raise BadInput(f"data: kind = {kind!r} is not a kind of task; the kinds are auto, {', '.join(KINDS)}")
