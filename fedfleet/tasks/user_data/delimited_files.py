"""Tables as text: .csv and .tsv, with or without a line of names, whatever separates the cells."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import numpy as np

from fedfleet.core.errors import BadInput, printable
from fedfleet.tasks.user_data.cells import Layout, line_of, numbered_rows, read_columns
from fedfleet.tasks.user_data.columns import COMMA_NUMBER, LABELS, MISSING, Column, Table, is_number

_LARGE = 4 << 20  # bytes from which pyarrow, where it is installed, is quicker than it takes to import
_BOM = b"\xef\xbb\xbf"
_SHOWN = 40


def read_delimited(path: Path, text: frozenset[str] = frozenset(), *, arrow: bool | None = None) -> Table:
    """A .csv or .tsv file as a table; columns in `text` stay text. `arrow` says whether pyarrow reads it, default: where it is
    installed and the file is large. The table is the same either way."""
    content = text_content(path)
    layout = _layout(path, content)
    if arrow is None:
        arrow = len(content) >= _LARGE and find_spec("pyarrow") is not None
    columns = None
    if arrow:
        from fedfleet.tasks.user_data.arrow_tables import csv_columns

        columns = csv_columns(layout, content, text)
    columns, warnings = _without_index(path, columns or read_columns(layout, text))
    return Table(str(path), columns, partial(line_of, layout), warnings=warnings)


def text_content(path: Path) -> bytes:
    """A text file's bytes, which are UTF-8 for certain, without a mark at the beginning."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(f"data: {path} cannot be read: {error.strerror or error}; check the path and its permissions") from None
    content = content.removeprefix(_BOM)
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BadInput(f"data: {path} is UTF-16, not UTF-8; save it as UTF-8 (in a spreadsheet: CSV UTF-8)")
    try:
        if not content.isascii():
            content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start]
        raise BadInput(f"data: {path}: line {line} is not UTF-8 (byte 0x{byte:02x}); save the file as UTF-8") from None
    if b"\0" in content:
        line = content.count(b"\n", 0, content.index(b"\0")) + 1
        raise BadInput(f"data: {path}: line {line} has a zero byte, so this is not a text file; save it as CSV in UTF-8")
    if not content[:1000].strip() and not content.strip():
        raise BadInput(f"data: {path} is empty; give one sample per line, or delete the file")
    return content


def text_lines(content: bytes) -> Iterator[str]:
    """The lines of a text, from the top."""
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline="")


def _layout(path: Path, content: bytes) -> Layout:
    start = content[: content.find(b"\n") if b"\n" in content else len(content)]
    delimiter = "\t" if path.suffix.lower() == ".tsv" else _delimiter(start.decode("utf-8", "replace"))
    layout = Layout(path, (), partial(text_lines, content), {"delimiter": delimiter, "strict": True, "skipinitialspace": True}, 0)
    top = list(islice(numbered_rows(layout), 2))
    if not top:
        raise BadInput(f"data: {path} is empty; give one sample per line, or delete the file")
    (number, first), *below = top
    second = below[0][1] if below else None
    has_header = _has_header(path, number, first, second)
    names = tuple(cell.strip() for cell in first) if has_header else tuple(map(str, range(len(first))))
    _refuse_twins(path, number, names)
    names = tuple(name or f"column {i + 1}" for i, name in enumerate(names))
    return replace(layout, names=names, skip=int(has_header))


def _delimiter(first: str) -> str:
    """What separates the cells of a line: what occurs most outside of quotes. Semicolons, where commas stand inside of numbers."""
    bare = re.sub(r'"[^"]*"', "", first)
    if ";" in bare and any(COMMA_NUMBER.fullmatch(cell.strip()) for cell in bare.split(";")):
        return ";"
    return max(",;\t", key=bare.count)


def _has_header(path: Path, number: int, first: list[str], second: list[str] | None) -> bool:
    """Is the first line one of names? Never a guess that would lose a sample."""
    like_values = [is_number(cell) or (bool(cell.strip()) and cell.strip() in MISSING) for cell in first]
    commas = next((cell.strip() for cell in first if COMMA_NUMBER.fullmatch(cell.strip())), None)
    if commas is not None:
        raise BadInput(
            f"data: {path}: line {number}: {commas!r} has a comma in a number; save the file with decimal points and without "
            f"separators "
            "of thousands"
        )
    if not any(like_values):
        return True
    if all(like_values[:-1]):  # numbers may be names too, as in 0,1,2,label
        numbers_below = second is not None and is_number(second[-1])
        return not like_values[-1] and (first[-1].strip().lower() in LABELS or numbers_below)
    odd = first[like_values.index(False)]
    raise BadInput(
        f"data: {path}: the first line has numbers and also {printable(odd, _SHOWN)!r}, so it is neither a header nor a sample; "
        f"start the "
        "file with a line of column names"
    )


def _refuse_twins(path: Path, line: int, names: tuple[str, ...]) -> None:
    first = dict[str, int]()
    for i, name in enumerate(names, 1):
        if name and first.setdefault(name, i) != i:
            raise BadInput(
                f"data: {path}: line {line} names two columns {printable(name, _SHOWN)!r} (columns {first[name]} and {i}); give "
                f"each column "
                "a name of its own"
            )


def _without_index(path: Path, columns: tuple[Column, ...]) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """Without a first column that nobody named and that only counts the lines, as pandas writes one."""
    first = columns[0]
    counts = first.name == "column 1" and first.names is None and len(columns) > 2
    if not counts or not np.array_equal(first.values, np.arange(len(first.values))):
        return columns, ()
    return columns[1:], (f"data: the first column of {path} has no name and counts the lines; it is left out",)
