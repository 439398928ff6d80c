"""Columns about all clients: ledgers, which are written a few rows at a time, durations, and whose devices they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedfleet.core.parts import State
from fedfleet.core.records import DROPPED, LOST, Ended, Floats, Ints, Roster
from fedfleet.core.trees import Array

# ---- ledger -------------------------------------------------------------------------------------------------------
# Ledgers: columns over all clients, written a few rows at a time and never changed in place.
#
# A selector's state goes in and comes out. To copy a million rows because ten tasks ended would cost more than all else, so what is
# new lies in a log beside the columns, ascending by client, until a copy is worth its while: writing costs what is written.

_CLIENTS = "log"
_LOG = "log."
# The log is written out when it holds more rows than this, and than this part of all.
_MIN_LOG_ROWS, _LOG_FRACTION = 1024, 256


def ledger(clients: int, kinds: Mapping[str, type[Any]]) -> dict[str, Array]:
    """Columns of zeros, by name and kind of number. Pages without writes take no memory.

    >>> state = write_rows(ledger(5, {"times": np.uint16}), np.array([1, 3]), {"times": np.array([7, 9])})
    >>> look_up(state, "times", np.array([0, 1, 3])), full_column(state, "times")
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


# ---- durations ----------------------------------------------------------------------------------------------------
# How long clients take: what was seen, as far as it was seen to its end, else what is predicted.
#
# A task that was given up or lost took at least as long as it ran: it never makes a client look faster.

SEES = ("compute_seconds", "transfer_seconds", "latency_seconds")
SECONDS, CENSORED = "seconds", "censored"


def empty_durations(clients: int) -> dict[str, Array]:
    """The columns before any task ended: seconds (NaN: not known), and whether they are no more than a lower bound."""
    return {SECONDS: np.full(clients, np.nan), CENSORED: np.zeros(clients, np.bool_)}


def update_durations(state: State, ended: Ended) -> dict[str, Array]:
    """The columns after these tasks ended. A client that cannot do the work takes for ever."""
    seconds, censored = state[SECONDS].copy(), state[CENSORED].copy()
    whole = ~((ended.fate == LOST) | (ended.fate == DROPPED)) | np.isnan(ended.seconds)
    seconds[ended.clients[whole]] = np.where(np.isnan(ended.seconds), np.inf, ended.seconds)[whole]
    censored[ended.clients[whole]] = False
    clients, elapsed = ended.clients[~whole], ended.seconds[~whole]
    longer = ~(seconds[clients] >= elapsed)
    np.fmax.at(seconds, clients[longer], elapsed[longer])
    censored[clients[longer]] = True
    return {SECONDS: seconds, CENSORED: censored}


def predicted_seconds(roster: Roster) -> Floats:
    """The seconds of a trip, without unavailable time; infinite for a client that cannot make it. For a selector that sees SEES."""
    compute, transfer, latency = (roster.stats[name] for name in SEES)
    with np.errstate(invalid="ignore"):  # infinite less infinite, for devices that cannot do it
        total = compute + (transfer - latency)  # each of the two holds the latency once
    return np.where(np.isnan(total), np.inf, total)


def expected_seconds(state: State, roster: Roster) -> Floats:
    """Seconds of a task of each candidate: as last seen, else as predicted, and no less than one that was cut off had taken."""
    known, predicted = state[SECONDS][roster.clients], predicted_seconds(roster)
    open_ended = state[CENSORED][roster.clients]
    return np.where(np.isnan(known), predicted, np.where(open_ended, np.fmax(known, predicted), known))


# ---- users --------------------------------------------------------------------------------------------------------


def owners(user: Ints) -> Ints:
    """The user of each device, nobody's devices having one each."""
    return np.where(user < 0, np.arange(len(user)) + int(user.max(initial=0)) + 1, user)


def within_user(user: Ints) -> tuple[Ints, Ints]:
    """Of each device: how many of the same user stand before it, and where that user's first one stands. Nobody's are alone.

    >>> [v.tolist() for v in within_user(np.array([3, -1, 3, -1, 3]))]
    [[0, 0, 1, 0, 2], [0, 1, 0, 3, 0]]
    """
    rank = np.arange(len(user))
    own = owners(user)
    order = np.argsort(own, kind="stable")
    begins = np.searchsorted(own[order], own[order], side="left")
    place, first = np.zeros(len(user), np.int64), np.zeros(len(user), np.int64)
    place[order], first[order] = rank - begins, order[begins]
    return place, first
