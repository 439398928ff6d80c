"""Ledgers: columns over all clients, written a few rows at a time and never changed in place.

A selector's state goes in and comes out. To copy a million rows because ten tasks ended would cost more than all else, so what is
new lies in a log beside the columns, ascending by client, until a copy is worth its while: writing costs what is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedfleet.core.parts import State
from fedfleet.core.records import Ints
from fedfleet.core.trees import Array

_CLIENTS = "log"
_LOG = "log."
_MIN_LOG_ROWS, _LOG_FRACTION = (
    1024,
    256,
)  # the log is written out when it holds more rows than this, and than this part of all


def ledger(clients: int, kinds: Mapping[str, type[Any]]) -> dict[str, Array]:
    """Columns of zeros, by name and kind of number. Pages that nobody writes to take no memory.

    >>> state = written(ledger(5, {"times": np.uint16}), np.array([1, 3]), {"times": np.array([7, 9])})
    >>> looked_up(state, "times", np.array([0, 1, 3])), whole(state, "times")
    (array([0, 7, 9], dtype=uint16), array([0, 7, 0, 9, 0], dtype=uint16))
    """
    columns: dict[str, Array] = {name: np.zeros(clients, kind) for name, kind in kinds.items()}
    logs = {_LOG + name: np.zeros(0, kind) for name, kind in kinds.items()}
    return {**columns, **logs, _CLIENTS: np.zeros(0, np.int64)}


def look_up(state: State, name: str, clients: Ints) -> NDArray[Any]:
    """What a column says of these clients, who are in ascending order."""
    column, log, new = state[name], state[_CLIENTS], state[_LOG + name]
    if len(clients) == len(column):
        return full_column(state, name)
    result = column[clients]
    if not len(log) or not len(clients):
        return result
    if len(clients) < len(log):
        at = np.minimum(np.searchsorted(log, clients), len(log) - 1)
        there = log[at] == clients
        result[there] = new[at[there]]
    else:
        at = np.minimum(np.searchsorted(clients, log), len(clients) - 1)
        there = clients[at] == log
        result[at[there]] = new[there]
    return result


def full_column(state: State, name: str) -> NDArray[Any]:
    """A column for everyone; to be read only."""
    column, log = state[name], state[_CLIENTS]
    if not len(log):
        return column
    result = column.copy()
    result[log] = state[_LOG + name]
    return result


def write_rows(state: State, clients: Ints, rows: Mapping[str, NDArray[Any]]) -> dict[str, Array]:
    """The state in which these clients, ascending and each once, have these entries in all columns of the ledger."""
    log = state[_CLIENTS]
    both = np.union1d(log, clients)
    old, new = np.searchsorted(both, log), np.searchsorted(both, clients)
    full = len(both) > max(_MIN_LOG_ROWS, len(state[next(iter(rows))]) // _LOG_FRACTION)
    result: dict[str, Array] = dict(state)
    for name, values in rows.items():
        entries = np.empty(len(both), state[name].dtype)
        entries[old] = state[_LOG + name]
        entries[new] = values
        result[_LOG + name] = entries[:0] if full else entries
        if full:
            column = state[name].copy()
            column[both] = entries
            result[name] = column
    result[_CLIENTS] = both[:0] if full else both
    return result
