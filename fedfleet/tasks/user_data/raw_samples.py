"""Samples as a reader found them: columns of a table as inputs, labels, owners and times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fedfleet.core.errors import BadInput, printable
from fedfleet.core.trees import Array
from fedfleet.tasks.user_data.column_checks import (
    MOST_VALUES,
    column_warnings,
    has_few_values,
    refuse_measured_owner,
    refuse_unusable,
)
from fedfleet.tasks.user_data.columns import (
    INPUTS,
    Choice,
    Column,
    Table,
    check_choice,
    flag_values,
    is_flag,
    label_columns,
    listed,
    refuse_odd_number,
)


@dataclass(frozen=True, slots=True)
class RawSamples:
    """What a reader found, before anything is checked: every input is numbers, one or an array of them for each sample.

    `input_names` are those of the numbers of a sample, where they have any. `place(row)` says where a sample stands.
    """

    where: str
    inputs: tuple[Column, ...]
    labels: tuple[Column, ...]
    owner: Column | None
    time: Column | None
    place: Callable[[int], str]
    input_names: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def rows(self, rows: Array) -> RawSamples:
        """Some of the samples."""
        numbers = np.arange(len(self.labels[0].values))[rows]
        place = self.place
        return replace(
            self,
            inputs=tuple(column.rows(rows) for column in self.inputs),
            labels=tuple(column.rows(rows) for column in self.labels),
            owner=None if self.owner is None else self.owner.rows(rows),
            time=None if self.time is None else self.time.rows(rows),
            place=lambda row: place(int(numbers[row])),
        )


def table_samples(table: Table, choice: Choice, owner: Column | None = None) -> RawSamples:
    """The samples of a table: `owner` is whose they are, where the table itself has no column of it."""
    labels = label_columns(table.names, choice.label, last=table.last)
    check_choice(table.names, choice, labels)
    names = choice.input or _guessed_inputs(table, {*labels, choice.owner, choice.time, *choice.drop})
    warnings: tuple[str, ...] = ()
    if choice.input is None:
        refuse_unusable(table, names, choice)
        warnings = column_warnings(table, names, owned=choice.owner is not None or owner is not None)
    inputs = tuple(input_column(table, table.column(name), guessed=choice.input is None) for name in names)
    arrays = [column for column in inputs if column.values.ndim > 1 and table.column(column.name).names is None]
    if arrays and len(inputs) > 1:
        shape, name = arrays[0].values.shape[1:], arrays[0].name
        raise BadInput(f"data: the column {name!r} contains arrays of shape {shape}; give it as the only input: input={name!r}")
    return RawSamples(
        table.where,
        inputs,
        tuple(table.column(name) for name in labels),
        owner if choice.owner is None else _owner_column(table.column(choice.owner)),
        None if choice.time is None else time_column(table.column(choice.time), table.place),
        table.place,
        () if arrays else tuple(part for column in inputs for part in _parts(table.column(column.name), column)),
        (*table.warnings, *warnings),
    )


def _guessed_inputs(table: Table, taken: set[str | None]) -> tuple[str, ...]:
    """All other columns of a file. Of a table in memory: one that is called so, the only one that is left, or all that are left
    where each holds a number or one of few words a sample."""
    remaining = tuple(name for name in table.names if name not in taken)
    if table.last and remaining:
        return remaining
    if table.last:
        raise BadInput(f"data: {table.where} has only the column {listed(table.names)}; put the inputs in columns before the label")
    matches = [name for word in INPUTS for name in remaining if name.lower() == word]
    if matches:
        return (matches[0],)
    if len(remaining) == 1 or (remaining and all(_is_plain(table.column(name)) for name in remaining)):
        return remaining
    raise BadInput(f"data: which of the columns {listed(remaining) or '(none is left)'} are the inputs? name them with input=..")


def _is_plain(column: Column) -> bool:
    return has_few_values(column) or all(map(is_flag, column.names)) if column.names is not None else column.values.ndim == 1


def input_column(table: Table, column: Column, *, guessed: bool) -> Column:
    """A column as numbers: text of few values becomes one column of 0 and 1 for each value, yes and no become 1 and 0."""
    if column.names is None:
        if column.values.dtype.kind not in "fiub":
            row, value = next(((i, v) for i, v in enumerate(column.values.tolist()) if v is not None), (0, None))
            raise BadInput(
                f"data: {table.place(row)}, column {column.name}: {printable(str(value), 40)!r} is not an array of numbers; "
                f"convert it into "
                "numbers first, or name another column with input=.."
            )
        return column
    if all(map(is_flag, column.names)):
        return Column(column.name, flag_values(column))
    cure = "choose columns with input=[..]" if guessed else "leave it out of input=[..]"
    if not column.fixed:
        refuse_odd_number(column, table.place, f"correct it, or {cure}")
    # Of a short table, as one device has it, nothing need come again; whoever names the column knows that it is no text.
    few = has_few_values(column) or (not guessed and max(len(column.names), len(column.values)) <= MOST_VALUES)
    if not few:
        raise BadInput(
            f"data: the inputs in column {column.name!r} of {table.where} are text; convert them into numbers "
            f"({len(column.names):,} different "
            f'values, such as {printable(column.names[0], 40)!r}), {cure}, or predict the text itself with kind = "next_token"'
        )
    table_of_rows = np.vstack([np.eye(len(column.names)), np.full(len(column.names), np.nan)])
    return Column(column.name, table_of_rows[column.values])


def _parts(source: Column, column: Column) -> tuple[str, ...]:
    """The names of the numbers that a column became."""
    if column.values.ndim == 1:
        return (column.name,)
    return tuple(f"{column.name}={value}" for value in source.words)


def _owner_column(column: Column) -> Column:
    """Whose each sample is, by name."""
    if column.names is None and (column.values.ndim != 1 or column.values.dtype.kind not in "fiub"):
        raise BadInput(f"data: the column {column.name!r} cannot say who made each sample; give one name or number for each")
    refuse_measured_owner(column)
    return as_names(column) if column.names is None else column


def as_names(column: Column) -> Column:
    """Numbers as the names of people or classes, in the order of the numbers."""
    numbers, codes = np.unique(column.values, return_inverse=True)
    known = numbers[~np.isnan(numbers)]
    codes = np.where(np.isnan(column.values), -1, codes)
    return Column(column.name, codes.astype(np.int64), tuple(number_name(v) for v in known.tolist()))


def number_name(value: float) -> str:
    """A number as the name of a class or a person.

    >>> number_name(5.0), number_name(0.5)
    ('5', '0.5')
    """
    return str(int(value)) if np.isfinite(value) and value == int(value) else str(value)


def time_column(column: Column, place: Callable[[int], str]) -> Column:
    """When each sample was made: numbers as they are, dates as seconds since 1970."""
    if column.names is None:
        return column
    seconds = np.full(len(column.names) + 1, np.nan)
    for i, name in enumerate(column.names):
        try:
            seconds[i] = np.datetime64(name.removesuffix("Z"), "us").astype(np.int64) / 1e6
        except ValueError:
            row = int(np.flatnonzero(column.values == i)[0])
            raise BadInput(
                f"data: {place(row)}, column {column.name}: {printable(name, 40)!r} is neither a number nor a date such as "
                f"2024-01-31 12:30; "
                "correct it, or leave time=.. out"
            ) from None
    return Column(column.name, seconds[column.values])
