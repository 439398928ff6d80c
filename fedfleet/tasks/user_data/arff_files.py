"""Weka's .arff: attributes with their types above, samples below; a nominal attribute lists its values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from fedfleet.core.errors import BadInput, printable
from fedfleet.tasks.user_data.cells import Layout, line_of, read_columns
from fedfleet.tasks.user_data.columns import Column, Table, odd_cell, refuse_odd_number
from fedfleet.tasks.user_data.delimited_files import text_content, text_lines

_NUMERIC = ("numeric", "real", "integer")
_TEXT = ("string", "date")
_NAME = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\s,{}]+"
_ATTRIBUTE = re.compile(rf"@attribute\s+({_NAME})\s*(.+)", re.IGNORECASE)
_VALUE = re.compile(rf"\s*({_NAME.replace('[^s,{}]', '[^,{}]')})\s*(?:,|$)")
_ESCAPED = re.compile(r"\\(.)")
_SHOWN = 40

Types = dict[str, tuple[str, ...] | str]  # of attributes: their values, or the word for the type


def read_arff(path: Path, text: frozenset[str] = frozenset()) -> Table:
    """An .arff file as a table; nominal columns have their values in the order in which they are declared."""
    content = text_content(path)
    types, header = _declarations(path, text_lines(content))
    quote = '"' if re.search(rb'(^|,)\s*"', content, re.MULTILINE) else "'"
    options = {"quotechar": quote, "escapechar": "\\", "skipinitialspace": True, "strict": True}
    layout = Layout(path, tuple(types), partial(_data_lines, path, content, header), options, 0, "the header declares")
    texts = text | {name for name, kind in types.items() if kind not in _NUMERIC}
    columns = read_columns(layout, frozenset(texts))
    return Table(
        str(path), tuple(_with_types(layout, column, types[column.name], text) for column in columns), partial(line_of, layout)
    )


def _declarations(path: Path, lines: Iterator[str]) -> tuple[Types, int]:
    """The attributes in their order, and the number of the line with @data."""
    types: Types = {}
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        word = stripped.partition(" ")[0].lower()
        if not stripped or stripped.startswith("%") or word == "@relation" or word.startswith("@relation\t"):
            continue
        if stripped.lower() == "@data":
            if not types:
                raise BadInput(
                    f"data: {path}: line {number} begins the samples, but no @attribute stands above; declare each column"
                )
            return types, number
        match = _ATTRIBUTE.fullmatch(stripped)
        if match is None:
            raise BadInput(
                f"data: {path}: line {number} is {printable(stripped, _SHOWN)!r}, neither @relation, @attribute nor @data; write "
                f"'@attribute "
                "NAME TYPE' for each column and '@data' above the samples"
            )
        name = _unquote(match[1])
        if name in types:
            raise BadInput(
                f"data: {path}: line {number} declares {printable(name, _SHOWN)!r} again; give each column a name of its own"
            )
        types[name] = _type(path, number, name, match[2].strip())
    raise BadInput(f"data: {path} has no line @data; write it above the samples")


def _type(path: Path, number: int, name: str, words: str) -> tuple[str, ...] | str:
    if words.startswith("{") and words.endswith("}"):
        values = _values(words[1:-1])
        if values:
            return values
    word = words.split()[0].lower()
    if word in (*_NUMERIC, *_TEXT):
        return "numeric" if word in _NUMERIC else "string"
    raise BadInput(
        f"data: {path}: line {number}: {printable(name, _SHOWN)!r} has the type {printable(words, _SHOWN)!r}, which is not read; "
        f"use numeric, "
        "string, date or {VALUE, VALUE, ..}"
    )


def _values(words: str) -> tuple[str, ...]:
    """What a nominal attribute lists; nothing if it is no list."""
    values, at = list[str](), 0
    while at < len(words):
        match = _VALUE.match(words, at)
        if match is None:
            return ()
        values.append(_unquote(match[1]))
        at = match.end()
    return tuple(dict.fromkeys(values))


def _unquote(word: str) -> str:
    """A name without its quotes.

    >>> _unquote("'sit ~ down'"), _unquote("walk")
    ('sit ~ down', 'walk')
    """
    word = word.strip()
    return _ESCAPED.sub(r"\1", word[1:-1]) if len(word) > 1 and word[0] in "'\"" and word[-1] == word[0] else word


def _data_lines(path: Path, content: bytes, header: int) -> Iterator[str]:
    """The lines below @data, and empty ones for those above and for comments, so that numbers of lines hold."""
    for number, line in enumerate(text_lines(content), 1):
        start = line.lstrip()[:1]
        if number > header and start == "{":
            raise BadInput(
                f"data: {path}: line {number} is sparse, as {{0 1, 3 walk}}; save the file with all values of a sample in its line"
            )
        yield line if number > header and start != "%" else "\n"


def _with_types(layout: Layout, column: Column, kind: tuple[str, ...] | str, text: frozenset[str]) -> Column:
    """A column as it is declared; a value that the declaration does not list is refused."""
    place = partial(line_of, layout)
    if isinstance(kind, str) or column.name in text:
        if kind == "numeric" and column.names is not None and column.name not in text:
            odd = odd_cell(column, lambda name: False) or (0, "")
            refuse_odd_number(column, place, "correct it, or declare the attribute with its values")
            raise BadInput(
                f"data: {place(odd[0])}, column {column.name}: {printable(odd[1], _SHOWN)!r} is not a number; correct it"
            )
        return column
    index = {name: i for i, name in enumerate(kind)}
    odd = odd_cell(column, index.__contains__)
    if odd is not None:
        raise BadInput(
            f"data: {place(odd[0])}, column {column.name}: {printable(odd[1], _SHOWN)!r} is not one of {', '.join(kind[:10])}; "
            f"correct it, or add "
            "it to the attribute's values"
        )
    table = np.array([*(index[name] for name in column.words), -1], np.int64)
    return Column(column.name, table[column.values], kind, fixed=True)
