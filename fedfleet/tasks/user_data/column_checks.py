"""Columns that nobody named as inputs: a refusal of all that cannot be inputs, a warning of those that hardly are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput, CurableInput, printable
from fedfleet.tasks.user_data.columns import Choice, Column, Table, is_flag, is_number, names_owner, odd_number

MOST_VALUES = 50  # different ones of a text that becomes one column each
MOST_DECLARED = 1000  # the same, where the file lists them
_ENOUGH_ROWS = 50  # samples from which on whole numbers that are all different are hardly a measurement
_SHOWN = 40  # characters of a cell or a name in a sentence


def has_few_values(column: Column) -> bool:
    """Do words come again and again, as the names of kinds do and those of people do not?"""
    if column.fixed:
        return len(column.words) <= MOST_DECLARED
    return len(column.words) <= MOST_VALUES and len(column.words) < len(column.values)


def refuse_unusable(table: Table, names: Sequence[str], choice: Choice) -> None:
    """Refuse all columns together that cannot be inputs, with the arguments that leave them out."""
    problems = {name: problem for name in names if (problem := _problem(table, table.column(name), choice))}
    texts = {name: problem for name, problem in problems.items() if problem[1] != "odd"}
    if not texts:
        return  # a cell that is no number is refused by its place
    times = [name for name, problem in texts.items() if problem[1] == "time"][:1]
    dropped = [name for name in problems if name not in times]
    cure: dict[str, str | list[str]] = {**({"drop": dropped} if dropped else {}), **({"time": times[0]} if times else {})}
    words = " and ".join(f"{key}={value!r}" for key, value in cure.items())
    if [kind for _, kind in problems.values()] == ["text"]:
        column = table.column(dropped[0])
        raise CurableInput(
            f"data: the inputs in column {column.name!r} of {table.where} are text; convert them into numbers "
            f'({_examples(column)}), leave the column out with {words}, or predict the text itself with kind = "next_token"',
            cure,
        )
    said = ", ".join(f"{printable(name, _SHOWN)!r} {problem}" for name, (problem, _) in problems.items())
    columns = f"{len(problems)} columns" if len(problems) > 1 else "a column"
    raise CurableInput(f"data: {columns} of {table.where} cannot be inputs: {said}; leave out what is no input with {words}", cure)


def _examples(column: Column) -> str:
    return f"{len(column.names or ()):,} different values, such as {printable(column.words[0], _SHOWN)!r}"


def _problem(table: Table, column: Column, choice: Choice) -> tuple[str, str] | None:
    """What keeps a column from being an input, in words and of which kind; None if nothing does."""
    if column.names is None or all(map(is_flag, column.names)):
        return None
    odd = None if column.fixed else odd_number(column)
    if odd is not None:
        return f"has {printable(odd[1], _SHOWN)!r} among its numbers ({table.place(odd[0])})", "odd"
    if has_few_values(column):
        return None
    if choice.time is None and holds_dates(column):
        return f"holds dates, such as {printable(column.names[0], _SHOWN)!r}", "time"
    return f"is text ({_examples(column)})", "text"


def holds_dates(column: Column) -> bool:
    """Is every text of this column a date?"""
    if not column.words:
        return False
    try:
        np.array([word.removesuffix("Z") for word in column.words], "datetime64[us]")
    except ValueError:
        return False
    # Years alone are numbers, and NumPy takes them for dates.
    return all("-" in word.strip("-") for word in column.words)


def column_warnings(table: Table, names: Sequence[str], *, owned: bool) -> tuple[str, ...]:
    """Sentences about columns that became inputs because nobody said what they are: numbers of rows, dates, owners."""
    result = list[str]()
    for name in names:
        column, shown = table.column(name), repr(printable(name, _SHOWN))
        if not owned and names_owner(name):
            result.append(
                f"data: the column {shown} seems to say who made each sample, and it is an input now; name it with "
                f"owner={name!r}, or leave it out with drop={[name]!r}"
            )
        elif column.names is not None and not column.fixed and has_few_values(column) and holds_dates(column):
            result.append(
                f"data: the column {shown} holds dates, and each date is an input of its own now; name it with time={name!r}, or "
                f"leave it out with drop={[name]!r}"
            )
        elif _numbers_rows(column.values, column.names):
            result.append(
                f"data: the column {shown} has another whole number in each of {len(column.values):,} samples, as numbers of rows "
                f"have, and it is an input now; if it is no measurement, leave it out with drop={[name]!r}"
            )
    return tuple(result)


def _numbers_rows(values: Any, names: tuple[str, ...] | None) -> bool:
    if names is not None or values.ndim != 1 or values.dtype.kind != "f" or len(values) < _ENOUGH_ROWS:
        return False
    return bool((values == np.rint(values)).all()) and len(np.unique(values)) == len(values)


def refuse_measured_owner(column: Column) -> None:
    """Refuse numbers with decimals that hardly come again as the names of who made the samples."""
    if column.names is None:
        values = column.values[~np.isnan(column.values)]
    elif all(map(is_number, column.names)):
        values = np.array([float(name) for name in column.names], np.float64)[column.values[column.values >= 0]]
    else:
        return
    different = len(np.unique(values))
    if (values == np.rint(values)).all() or 2 * different <= len(values):
        return
    first = values[values != np.rint(values)][0]
    raise BadInput(
        f"data: the column {printable(column.name, _SHOWN)!r} hardly says who made each sample: it has {different:,} different "
        f"numbers for {len(values):,} samples, such as {first:g}; name another column with owner=.., or leave owner=.. out"
    )
