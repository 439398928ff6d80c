"""A run as plain columns: one row per round, one row per client. `pandas.DataFrame(columns)` takes them as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedfleet.core.events import Evaluated, Event, ModelCommitted, RoundFailed, RunBegan
from fedfleet.core.records import DROPPED, FOLDED, LOST, REJECTED, ClientScores, Floats, Ints
from fedfleet.measure.device_work import spending
from fedfleet.measure.tasks import RUNNING, Tasks, task_table

Columns = dict[str, NDArray[Any]]


def round_columns(log: Sequence[Event], tasks: Tasks | None = None) -> Columns:
    """One row per round that ended, in order.

    `version` is the model at its end and `committed` whether it is new; `time` is when it ended and `seconds` since the one
    before. `selected` counts the tasks that were sent in it, with what became of them whenever that was: `arrived`, `folded`,
    `dropped`, `lost`, `rejected`; `worked` are the seconds that devices worked on them, `joules` what that drew (NaN: unknown).
    `accuracy` and `loss` are those of its model on the central test set, NaN if it was not tried.
    """
    tasks = task_table(log) if tasks is None else tasks
    ends = [e for e in log if isinstance(e, ModelCommitted | RoundFailed)]
    by_version = {e.version: e for e in log if isinstance(e, Evaluated) and e.total}
    numbers: Ints = np.array([e.round for e in ends], np.int64)
    times: Floats = np.array([e.time for e in ends], np.float64)
    committed = np.array([isinstance(e, ModelCommitted) for e in ends], np.bool_)
    versions = np.cumsum(committed)
    evaluations = [by_version.get(int(v)) if new else None for v, new in zip(versions, committed, strict=True)]
    return {
        "round": numbers,
        "version": versions,
        "committed": committed,
        "time": times,
        "seconds": np.diff(times, prepend=log[0].time if log else 0.0),
        **_fates(tasks, tasks.rounds, numbers),
        **_costs(log, tasks.rounds, numbers),
        "bytes_down": _sums_by_row(tasks.bytes_down, tasks.rounds, numbers),
        "bytes_up": _sums_by_row(tasks.bytes_up, tasks.rounds, numbers),
        "accuracy": np.array([np.nan if e is None else e.correct / e.total for e in evaluations], np.float64),
        "loss": np.array([np.nan if e is None else e.loss for e in evaluations], np.float64),
    }


def client_columns(
    log: Sequence[Event], tasks: Tasks | None = None, kinds: Sequence[str] | None = None, samples: Ints | None = None
) -> Columns:
    """One row per client: how often it was asked (`picked`) and what became of that, how long it worked, what it moved.

    `seconds` are those between asking it and the end of its tasks, `worked` those of them in which it worked, `joules` what that
    drew (NaN: unknown). `accuracy` is that on its own test data at the last evaluation of clients, NaN if it has none. `kind` and
    `samples` (of its training shard) are facts about the world, not in the journal: they are there where the world is known.
    """
    tasks = task_table(log) if tasks is None else tasks
    clients = np.arange(next((e.clients for e in log if isinstance(e, RunBegan)), 0))
    known: Columns = {}
    if kinds is not None and len(kinds) == len(clients):
        known["kind"] = np.array(kinds, dtype=object)
    if samples is not None and len(samples) == len(clients):
        known["samples"] = np.asarray(samples, np.int64)
    fates = _fates(tasks, tasks.clients, clients)
    return {
        "client": clients,
        **known,
        "picked": fates.pop("selected"),
        **fates,
        "seconds": _sums_by_row(np.nan_to_num(tasks.seconds), tasks.clients, clients),
        **_costs(log, tasks.clients, clients),
        "bytes_down": _sums_by_row(tasks.bytes_down, tasks.clients, clients),
        "bytes_up": _sums_by_row(tasks.bytes_up, tasks.clients, clients),
        "accuracy": _own_accuracy(log, len(clients)),
    }


def _fates(tasks: Tasks, by: Ints, rows: Ints) -> Columns:
    """How many tasks of each row were sent, and what became of them."""
    ended = (tasks.fate != RUNNING) & (tasks.fate != LOST) & (tasks.fate != DROPPED)
    masks = {
        "selected": np.ones(len(by), np.bool_), "arrived": ended, "folded": tasks.fate == FOLDED,
        "dropped": tasks.fate == DROPPED, "lost": tasks.fate == LOST, "rejected": tasks.fate == REJECTED,
    }  # fmt: skip
    return {name: _sums_by_row(mask, by, rows).astype(np.int64) for name, mask in masks.items()}


def _costs(log: Sequence[Event], by: Ints, rows: Ints) -> Columns:
    """Seconds worked on the tasks of each row, and joules; NaN if nobody told of any task. Tasks that still run are left out."""
    spent = spending(log, len(by))
    result = {"worked": spent.worked_seconds(), "joules": spent.column("joules")}
    has_joules = spent.accounted.any() and "joules" in spent.columns
    known = {"worked": spent.accounted.any(), "joules": has_joules}
    return {
        name: _sums_by_row(np.where(spent.accounted, v, 0.0), by, rows) if known[name] else np.full(len(rows), np.nan)
        for name, v in result.items()
    }


def _sums_by_row(values: NDArray[Any], by: Ints, rows: Ints) -> Floats:
    """The sums of values over the tasks of each row."""
    most = int(max(by.max(initial=-1), rows.max(initial=-1))) + 1
    return np.bincount(by, values.astype(np.float64), most).astype(np.float64)[rows]


def _own_accuracy(log: Sequence[Event], clients: int) -> Floats:
    result = np.full(clients, np.nan)
    last: ClientScores | None = None
    for event in log:
        if isinstance(event, Evaluated) and event.clients is not None:
            last = event.clients
    if last is not None:
        result[last.clients] = last.correct / np.maximum(last.total, 1)
    return result
