"""Lines of cells as columns: in blocks, so that a large file never lies in memory as text twice."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.trees import Array
from fedfleet.tasks.user_data.columns import MISSING, Column, coded_column, is_number

_BLOCK = 20_000  # lines


@dataclass(frozen=True, slots=True)
class Layout:
    """How a file's samples are written: `lines()` begins at the top of the file each time, `options` are those of `csv.reader`,
    `skip` is how many lines that are not blank precede the samples, `width_of` what says how many columns there are."""

    path: Path
    names: tuple[str, ...]
    lines: Callable[[], Iterator[str]]
    options: Mapping[str, Any]
    skip: int
    width_of: str = "the first line has"


class _TextFound(Exception):
    """Columns that were taken for numbers until a block showed otherwise."""

    def __init__(self, names: set[str]) -> None:
        super().__init__()
        self.names = names


def numbered_rows(layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """The lines of cells that are not blank, each with its number in the file."""
    reader = csv.reader(layout.lines(), **layout.options)
    try:
        for row in reader:
            if _has_cells(row):
                yield reader.line_num, row
    except csv.Error as error:
        raise _csv_error(layout, reader.line_num, error) from None


def _blocks(layout: Layout) -> Iterator[list[list[str]]]:
    """The samples' lines of cells, many at a time."""
    reader = csv.reader(layout.lines(), **layout.options)
    try:
        for _ in range(layout.skip):
            next(row for row in reader if _has_cells(row))
        while block := list(islice(reader, _BLOCK)):
            yield [row for row in block if row and (row[0].strip() or _has_cells(row))]
    except csv.Error as error:
        raise _csv_error(layout, reader.line_num, error) from None


def _has_cells(row: Sequence[str]) -> bool:
    return any(map(str.strip, row))


def _csv_error(layout: Layout, line: int, error: csv.Error) -> BadInput:
    cure = "save it with one sample per line, and check its quotes"
    return BadInput(f"data: {layout.path} cannot be read: line {line}: {error}; {cure}")


def line_of(layout: Layout, sample: int) -> str:
    """Where a sample stands, such as `my.csv: line 3`; the file is read again, since only mistakes ask."""
    number = next(islice(numbered_rows(layout), layout.skip + sample, None), (0, []))[0]
    return f"{layout.path}: line {number}"


def read_columns(layout: Layout, text: frozenset[str]) -> tuple[Column, ...]:
    """All columns: numbers where every cell is one or missing, else text. Those in `text` stay text."""
    names = set(text)
    while True:
        try:
            return _read_blocks(layout, names)
        except _TextFound as found:
            names |= found.names


def _read_blocks(layout: Layout, text: set[str]) -> tuple[Column, ...]:
    width = len(layout.names)
    texts: dict[str, dict[str, int]] = {name: {} for name in layout.names if name in text}
    blocks: list[list[Array]] = [[] for _ in layout.names]
    for block in filter(None, _blocks(layout)):
        if set(map(len, block)) != {width}:
            _refuse_ragged(layout)
        found = set[str]()
        for name, cells, column in zip(layout.names, zip(*block, strict=True), blocks, strict=True):
            if name in texts:
                index = texts[name]
                column.append(np.fromiter((index.setdefault(c.strip(), len(index)) for c in cells), np.int64, len(cells)))
                continue
            numbers = cell_numbers(cells)
            if numbers is None:
                found.add(name)
            else:
                column.append(numbers)
        if found:
            raise _TextFound(found)
    if not blocks or not blocks[0]:
        raise BadInput(f"data: {layout.path} has a header line but no sample; give one sample per line, or delete the file")
    parts = zip(layout.names, map(np.concatenate, blocks), strict=True)
    return tuple(coded_column(name, values, list(texts[name])) if name in texts else Column(name, values) for name, values in parts)


def _refuse_ragged(layout: Layout) -> None:
    width = len(layout.names)
    for number, row in islice(numbered_rows(layout), layout.skip, None):
        if len(row) != width:
            raise BadInput(
                f"data: {layout.path}: line {number} has {len(row)} cells, but {layout.width_of} {width}; give every line the "
                f"same number of "
                "cells, and quote cells that contain the separator"
            )


def cell_numbers(cells: Sequence[str]) -> Array | None:
    """Cells as numbers, NaN where one is missing; None if one is neither."""
    joined = "".join(cells)
    if "_" not in joined and joined.isascii():  # float() takes 1_000, and digits of other alphabets
        try:
            values = np.fromiter(map(float, cells), np.float64, len(cells))
        except ValueError:
            pass
        else:
            if not np.isinf(values).any():
                return values
    values = np.full(len(cells), np.nan)
    for i, cell in enumerate(cells):
        stripped = cell.strip()
        if is_number(stripped):
            values[i] = float(stripped)
        elif stripped not in MISSING:
            return None
    return None if np.isinf(values).any() else values
