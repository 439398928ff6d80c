"""Files that hold a table: .csv, .tsv, .arff and .parquet, one by one or a file for each client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.tasks.user_data.arff_files import read_arff
from fedfleet.tasks.user_data.arrow_tables import read_parquet
from fedfleet.tasks.user_data.columns import Column, Table, text_column
from fedfleet.tasks.user_data.delimited_files import read_delimited
from fedfleet.tasks.user_data.raw_samples import number_name

READERS: dict[str, Callable[[Path, frozenset[str]], Table]] = {
    ".csv": read_delimited,
    ".tsv": read_delimited,
    ".arff": read_arff,
    ".parquet": read_parquet,
}


def read_table_file(path: Path, text: frozenset[str] = frozenset()) -> Table:
    """A file as a table, by its ending; columns in `text` stay text."""
    return READERS[path.suffix.lower()](path, text)


def joined_tables(where: str, files: Sequence[tuple[str, Table]]) -> Table:
    """The tables of several clients, one below the other; their columns must be alike."""
    first, one = files[0]
    for name, table in files:
        if table.names != one.names:
            odd = next((n for n in table.names if n not in one.names), None)
            what = "other columns, or has them in another order"
            difference = (
                f"{name} has a column {odd!r} where {first} has {what}"
                if odd
                else f"{name} has {len(table.names)} columns where {first} has {what}"
            )
            raise BadInput(f"data: the columns in {where} differ: {difference}; give all files the same columns")
    starts = np.cumsum([0, *(len(table.columns[0].values) for _, table in files)])

    def place(row: int) -> str:
        at = int(np.searchsorted(starts, row, side="right")) - 1
        return files[at][1].place(row - int(starts[at]))

    columns = tuple(joined_column([table.columns[i] for _, table in files]) for i in range(len(one.columns)))
    return replace(
        one, where=where, columns=columns, place=place, warnings=_once([w for _, table in files for w in table.warnings])
    )


def _once(sentences: Sequence[str]) -> tuple[str, ...]:
    """The first of sentences that differ in the file alone."""
    return tuple(sentences) if len(sentences) < 2 else (f"{sentences[0]} (as in {len(sentences) - 1:,} other files)",)


def joined_column(parts: Sequence[Column]) -> Column:
    """Columns one below the other: text if one of them is, unless all else is missing there."""
    if all(part.names is None for part in parts):
        return replace(parts[0], values=np.concatenate([part.values for part in parts]))
    parts = [part if part.names is not None else _as_text(part) for part in parts]
    lists = [part.words for part in parts]
    fixed = all(part.fixed for part in parts)
    every = dict.fromkeys(name for names in lists for name in names)
    names = tuple(every) if fixed else tuple(sorted(every))
    index = {name: i for i, name in enumerate(names)}
    values = [np.array([*(index[n] for n in own), -1], np.int64)[part.values] for own, part in zip(lists, parts, strict=True)]
    return Column(parts[0].name, np.concatenate(values), names, fixed)


def _as_text(column: Column) -> Column:
    return text_column(column.name, ["" if np.isnan(v) else number_name(v) for v in column.values.tolist()])
