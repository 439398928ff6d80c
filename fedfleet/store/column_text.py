"""Columns of numbers as short text, exact to the last bit: what journal rows of many tasks hold."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedfleet.core.records import Floats


def encode_columns(columns: Mapping[str, Floats]) -> dict[str, Any]:
    """Columns by name as JSON holds them: one number where all entries are alike, else the bytes; columns of zeros are left out.

    >>> encode_columns({"a": np.array([2.0, 2.0]), "b": np.zeros(2), "c": np.array([1.0, 2.0])})
    {'a': 2.0, 'c': 'AAAAAAAA8D8AAAAAAAAAQA=='}
    """
    encoded: dict[str, Any] = {}
    for name, column in columns.items():
        if len(column) and (column[0] != column[0] or (column != column[0]).any()):
            encoded[name] = base64.b64encode(np.ascontiguousarray(column, "<f8").tobytes()).decode()
        elif len(column) and column[0] != 0:
            encoded[name] = float(column[0])
    return encoded


def decode_columns(encoded: Mapping[str, Any], n: int) -> dict[str, Floats]:
    """The inverse of `encode_columns`, for columns of n entries."""
    columns: dict[str, Floats] = {}
    for name, value in encoded.items():
        if isinstance(value, str):
            column = np.frombuffer(base64.b64decode(value, validate=True), "<f8").astype(np.float64)
        else:
            column = np.full(n, float(value))
        if len(column) != n:
            raise ValueError(f"column {name!r} has {len(column)} entries, not {n}")
        columns[name] = column
    return columns
