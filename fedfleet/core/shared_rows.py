"""Few rows for many clients: `row_index[c]` is the row that client c has; no `row_index` (None) means that client c has row c.

A fleet of a million clients is drawn from some hundred devices and states. What they share is kept once, and each client
costs one number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from fedfleet.core.records import Ints

Names = NDArray[np.str_]
RowNumbers = NDArray[np.int32]


def row_of(row_index: RowNumbers | None, clients: Ints) -> Ints:
    """The row of each of these clients.

    >>> row_of(np.array([1, 0, 1], np.int32), np.array([2, 1])), row_of(None, np.array([2, 1]))
    (array([1, 0]), array([2, 1]))
    """
    return clients if row_index is None else row_index[clients].astype(np.int64)


def rows_of_all(row_index: RowNumbers | None, rows: int) -> RowNumbers:
    """The row of every client, written out also where each client has its own of that many rows."""
    return np.arange(rows, dtype=np.int32) if row_index is None else row_index


def compact_rows(row_index: RowNumbers | None, rows: int, clients: Ints) -> tuple[Ints, RowNumbers | None]:
    """A fleet made of these clients of another, repetition allowed: the rows that it needs, and who has which of them.

    `rows` is how many rows the other fleet has. If no two of the clients share a row, they keep their order and no `row_index`.

    >>> compact_rows(None, 4, np.array([3, 1, 3])), compact_rows(None, 4, np.array([3, 1]))
    ((array([1, 3]), array([1, 0, 1], dtype=int32)), (array([3, 1]), None))
    """
    wanted = row_of(row_index, clients)
    used = np.zeros(rows, np.bool_)
    used[wanted] = True
    kept = np.flatnonzero(used)
    if len(kept) == len(wanted):
        return wanted, None
    place = np.cumsum(used, dtype=np.int32) - np.int32(1)
    return kept, place[wanted]


class SharedNames(Sequence[str]):
    """A name for every client, of which each different one is kept once. Numpy makes an array of it at once."""

    __slots__ = ("names", "row_index")

    def __init__(self, names: Names, row_index: RowNumbers) -> None:
        self.names = names
        self.row_index = row_index

    def __len__(self) -> int:
        return len(self.row_index)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> SharedNames: ...
    def __getitem__(self, index: int | slice) -> str | SharedNames:
        if isinstance(index, slice):
            return SharedNames(self.names, self.row_index[index])
        return str(self.names[self.row_index[index]])

    def __iter__(self) -> Iterator[str]:
        names: list[str] = self.names.tolist()
        rows: list[int] = self.row_index.tolist()
        return (names[row] for row in rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        del copy  # what is gathered is new in any case
        return np.asarray(self.names[self.row_index], dtype)
