"""A run as plain columns: one row per round, one row per client. `pandas.DataFrame(columns)` takes them as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedfleet.core.events import Event
from fedfleet.core.records import DROPPED, FOLDED, LOST, REJECTED, Floats, Ints
from fedfleet.measure.run_progress import COMMITTED
from fedfleet.measure.run_record import RunRecord, read_record
from fedfleet.measure.tasks import RUNNING, Spending, Tasks

Columns = dict[str, NDArray[Any]]


def round_columns(log: Sequence[Event] | RunRecord) -> Columns:
    """One row per round that ended, in order.

    `version` is the model at its end and `committed` whether it is new; `time` is when it ended and `seconds` since the one before.
    `selected` counts the tasks that were sent in it, with what became of them whenever that was: `arrived`, `folded`, `dropped`,
    `lost`, `rejected`; `worked` are the seconds that devices worked on them, `joules` what that drew (NaN: unknown). `accuracy` and
    `loss` are those of its model on the central test set, NaN if it was not tried.
    """
    record = log if isinstance(log, RunRecord) else read_record(log)
    tasks, spent, rounds = record.tasks.table(), record.tasks.spending(), record.progress.closed_rounds
    by_version = {e.version: e for e in record.progress.evaluations if e.total}
    numbers: Ints = np.array([r.number for r in rounds], np.int64)
    times: Floats = np.array([r.closed for r in rounds], np.float64)
    committed = np.array([r.outcome == COMMITTED for r in rounds], np.bool_)
    versions = np.cumsum(committed)
    evaluations = [by_version.get(int(v)) if new else None for v, new in zip(versions, committed, strict=True)]
    return {
        "round": numbers,
        "version": versions,
        "committed": committed,
        "time": times,
        "seconds": np.array([r.closed - r.opened for r in rounds], np.float64),
        **_fates(tasks, tasks.rounds, numbers),
        **_costs(spent, tasks.rounds, numbers),
        "bytes_down": _sums_by_row(tasks.bytes_down, tasks.rounds, numbers),
        "bytes_up": _sums_by_row(tasks.bytes_up, tasks.rounds, numbers),
        "accuracy": np.array([np.nan if e is None else e.accuracy for e in evaluations], np.float64),
        "loss": np.array([np.nan if e is None else e.loss for e in evaluations], np.float64),
    }


def client_columns(log: Sequence[Event] | RunRecord, *, kinds: Sequence[str] | None = None, samples: Ints | None = None) -> Columns:
    """One row per client: how often it was asked (`picked`) and what became of that, how long it worked, what it moved.

    `seconds` are those between asking it and the end of its tasks, `worked` those of them in which it worked, `joules` what that
    drew (NaN: unknown). `accuracy` is that on its own test data at the last evaluation of clients, NaN if it has none. `kind` and
    `samples` (of its training shard) are facts about the world, not in the journal: they are there where the world is known.
    """
    record = log if isinstance(log, RunRecord) else read_record(log)
    tasks, spent = record.tasks.table(), record.tasks.spending()
    clients = np.arange(record.progress.clients)
    known: Columns = {}
    if kinds is not None and len(kinds) == len(clients):
        known["kind"] = np.array(kinds, dtype=object)
    if samples is not None and len(samples) == len(clients):
        known["samples"] = np.asarray(samples, np.int64)
    fates, accuracy, last = _fates(tasks, tasks.clients, clients), np.full(len(clients), np.nan), record.progress.client_scores
    if last is not None:
        accuracy[last.clients] = last.correct / np.maximum(last.total, 1)
    return {
        "client": clients,
        **known,
        "picked": fates.pop("selected"),
        **fates,
        "seconds": _sums_by_row(np.nan_to_num(tasks.seconds), tasks.clients, clients),
        **_costs(spent, tasks.clients, clients),
        "bytes_down": _sums_by_row(tasks.bytes_down, tasks.clients, clients),
        "bytes_up": _sums_by_row(tasks.bytes_up, tasks.clients, clients),
        "accuracy": accuracy,
    }


def _fates(tasks: Tasks, by: Ints, rows: Ints) -> Columns:
    """How many tasks of each row were sent, and what became of them."""
    ended = (tasks.fate != RUNNING) & (tasks.fate != LOST) & (tasks.fate != DROPPED)
    masks = {
        "selected": np.ones(len(by), np.bool_), "arrived": ended, "folded": tasks.fate == FOLDED,
        "dropped": tasks.fate == DROPPED, "lost": tasks.fate == LOST, "rejected": tasks.fate == REJECTED,
    }  # fmt: skip
    return {name: _sums_by_row(mask, by, rows).astype(np.int64) for name, mask in masks.items()}


def _costs(spent: Spending, by: Ints, rows: Ints) -> Columns:
    """Seconds worked on the tasks of each row, and joules; NaN if nobody told of any task. Tasks that still run are left out."""
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
