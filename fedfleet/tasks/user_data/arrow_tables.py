"""Tables by pyarrow: Parquet, and large .csv files in a fraction of the time."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.tasks.data_checks import error_line
from fedfleet.tasks.user_data.cells import Layout, cell_numbers, numbered_rows
from fedfleet.tasks.user_data.columns import MISSING, Column, Table, coded_column, column_of
from fedfleet.tasks.user_data.picture_bytes import decode_picture, stack_pictures

# A quote inside of a cell, which the csv module and pyarrow take in different ways.
_ODD_QUOTE = re.compile(rb'[^,;\t\r\n"]"[^,;\t\r\n"]')
_SAMPLE = 1000  # lines by which columns count as numbers until one shows otherwise


def csv_columns(layout: Layout, content: bytes, text: frozenset[str]) -> tuple[Column, ...] | None:
    """The columns of a .csv file, or None where anything in it is odd: then the reader of cells says what, and where."""
    import pyarrow as pa
    from pyarrow import csv

    if b'"' in content and _ODD_QUOTE.search(content):
        return None
    first = list(islice(numbered_rows(layout), layout.skip + _SAMPLE))
    rows = [row for _, row in first[layout.skip :]]
    if not rows or any(len(row) != len(layout.names) for row in rows):
        return None
    cells = dict(zip(layout.names, zip(*rows, strict=True), strict=True))
    numeric = {name for name, column in cells.items() if name not in text and cell_numbers(column) is not None}
    codes = pa.dictionary(pa.int32(), pa.string())
    skip = first[layout.skip - 1][0] if layout.skip else 0
    try:
        table: Any = csv.read_csv(
            pa.BufferReader(content),
            read_options=csv.ReadOptions(column_names=list(layout.names), skip_rows=skip),
            parse_options=csv.ParseOptions(delimiter=layout.options["delimiter"], newlines_in_values=b'"' in content),
            convert_options=csv.ConvertOptions(
                column_types={name: pa.float64() if name in numeric else codes for name in layout.names},
                null_values=sorted(MISSING),
                strings_can_be_null=False,
            ),
        )
    except (pa.ArrowException, OSError, ValueError):
        return None
    columns = tuple(
        _numbers(name, table.column(name)) if name in numeric else _codes(name, table.column(name)) for name in layout.names
    )
    odd = any(column.names is None and np.isinf(column.values).any() for column in columns)
    empty = np.logical_and.reduce([column.missing() for column in columns])
    return None if odd or empty.any() else columns


def _numbers(name: str, column: Any) -> Column:
    return Column(name, np.concatenate([chunk.to_numpy(zero_copy_only=False) for chunk in column.chunks] or [np.empty(0)]))


def _codes(name: str, column: Any) -> Column:
    whole = column.unify_dictionaries().combine_chunks()
    chunks = whole.chunks if hasattr(whole, "chunks") else [whole]
    if not chunks:
        return coded_column(name, np.empty(0, np.int64), [])
    values = [str(value).strip() for value in chunks[0].dictionary.to_pylist()]
    return coded_column(name, np.concatenate([c.indices.to_numpy(zero_copy_only=False) for c in chunks]).astype(np.int64), values)


def read_parquet(path: Path, text: frozenset[str] = frozenset()) -> Table:
    """A .parquet file as a table; columns in `text` become text."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise BadInput(
            f"data: {path} is Parquet, which needs pyarrow, and that is not installed; install fedfleet[parquet]"
        ) from None
    try:
        table: Any = parquet.read_table(path)
        columns = tuple(_arrow_column(pa, name, table.column(i), text) for i, name in enumerate(table.column_names))
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise BadInput(f"data: {path} cannot be read as Parquet: {error_line(error)}; write it again") from None
    if len({column.name for column in columns}) < len(columns) or not columns:
        raise BadInput(f"data: {path} has no columns, or two of one name; give each column a name of its own")
    if not table.num_rows:
        raise BadInput(f"data: {path} has columns but no sample; give at least one row")
    return Table(str(path), columns, lambda row: f"{path}: row {row}")


def _arrow_column(pa: Any, name: str, column: Any, text: frozenset[str]) -> Column:
    kind = column.type
    types = pa.types
    if types.is_timestamp(kind) or types.is_date(kind):
        column = column.cast(pa.timestamp("us"))
        return Column(name, _numbers(name, column.cast(pa.int64())).values.astype(np.float64) / 1e6)
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        if name in text:
            return column_of(name, [None if v is None else str(v) for v in column.to_pylist()])
        return Column(name, _numbers(name, column.cast(pa.float64())).values.astype(np.float64))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind):
        plain = column.cast(pa.string())
        return column_of(name, plain.to_pylist())
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        rows = column.to_pylist()
        lengths = {np.shape(row) for row in rows}
        if None not in rows and len(lengths) == 1:
            values = np.asarray(rows)
            if values.dtype.kind in "fiub":
                return Column(name, values.astype(np.float64) if values.dtype.kind == "f" else values)
    if types.is_struct(kind) and kind.get_field_index("bytes") >= 0:  # how Hugging Face writes pictures
        contents: list[Any] = [(value or {}).get("bytes") for value in column.to_pylist()]
        if contents and all(isinstance(content, bytes) for content in contents):
            where = [f"of row {i} in {name!r}" for i in range(len(contents))]
            return Column(name, stack_pictures([(at, decode_picture(c, at)) for at, c in zip(where, contents, strict=True)]))
    # Refused where somebody asks for this column: others may be all that is needed.
    objects = np.empty(len(column), object)
    objects[:] = [str(value) for value in column.to_pylist()]
    return Column(name, objects)
