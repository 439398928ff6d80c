"""The text in journal rows that programs read again: columns, runs of task ids, names of rosters, scores, notes."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from fedfleet.core.errors import printable
from fedfleet.core.records import ClientScores, Floats, Ints, Roster

# Journals of earlier versions say "judged".
_MAX_COLUMNS = 64  # that one row may have: each takes as much room as the row has tasks
_FEW = 48  # up to so many entries plain Python is faster than a call of numpy
_BY_DEVICES = re.compile(r"version (\d+) was (?:evaluated|judged) by \d+ of \d+ devices: ")


def encode_columns(columns: Mapping[str, Floats]) -> dict[str, Any]:
    """Columns by name as JSON holds them: one number where all entries are alike, else the bytes; columns of zeros are left out.

    >>> encode_columns({"a": np.array([2.0, 2.0]), "b": np.zeros(2), "c": np.array([1.0, 2.0])})
    {'a': 2.0, 'c': 'AAAAAAAA8D8AAAAAAAAAQA=='}
    """
    encoded: dict[str, Any] = {}
    for name, column in columns.items():
        if 0 < len(column) <= _FEW:
            values: list[float] = column.tolist()
            if values[0] == values[0] and values.count(values[0]) == len(values):
                if values[0] != 0:
                    encoded[name] = float(values[0])
                continue
        if len(column) and (column[0] != column[0] or (column != column[0]).any()):
            encoded[name] = base64.b64encode(np.ascontiguousarray(column, "<f8").tobytes()).decode()
        elif len(column) and column[0] != 0:
            encoded[name] = float(column[0])
    return encoded


def decode_columns(encoded: Mapping[str, Any], n: int) -> dict[str, Floats]:
    """The inverse of `encode_columns`, for columns of n entries."""
    if len(encoded) > _MAX_COLUMNS:
        raise ValueError(f"it has {len(encoded)} columns")
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


def spans(tasks: Ints) -> str:
    """Ascending task ids as runs: `0-19 25 30-31`."""
    if len(tasks) <= _FEW:
        runs: list[list[int]] = []
        for task in tasks.tolist():
            if runs and task == runs[-1][1] + 1:
                runs[-1][1] = task
            else:
                runs.append([task, task])
        return " ".join(f"{a}-{b}" if b > a else f"{a}" for a, b in runs)
    breaks = np.flatnonzero(np.diff(tasks) != 1)
    firsts = tasks[np.concatenate([[0], breaks + 1])].tolist()
    lasts = tasks[np.concatenate([breaks, [len(tasks) - 1]])].tolist()
    return " ".join(f"{a}-{b}" if b > a else str(a) for a, b in zip(firsts, lasts, strict=True))


def read_spans(text: str, below: int) -> Ints:
    """The inverse of `spans`, for tasks below this number: a few digits must not ask for room for millions.

    >>> read_spans("0-2 5", 6).tolist()
    [0, 1, 2, 5]
    """
    runs: list[Ints] = []
    follows = 0
    for first, _, last in (span.partition("-") for span in text.split()):
        a, b = int(first), int(last or first)
        if not follows <= a <= b < below:
            raise ValueError(f"the tasks {printable(text, 60)!r} are not ascending numbers below {below}")
        runs.append(np.arange(a, b + 1))
        follows = b + 1
    return np.concatenate(runs) if runs else np.zeros(0, np.int64)


def roster_hash(roster: Roster) -> str:
    """A short name for a roster, which itself is not kept."""
    h = hashlib.sha256(np.ascontiguousarray(roster.clients).data)
    h.update(np.ascontiguousarray(roster.samples).data)
    return h.hexdigest()[:16]


def encode_scores(scores: ClientScores | None, measures: Mapping[str, float] | None = None) -> str | None:
    """How clients did, as JSON: who, how many right, of how many; with other measures of the model, where there are any.

    >>> encode_scores(None, {"rmse": 2.5})
    '{"clients":null,"measures":{"rmse":2.5}}'
    """
    columns = None if scores is None else [scores.clients.tolist(), scores.correct.tolist(), scores.total.tolist()]
    if measures:
        return json.dumps({"clients": columns, "measures": dict(sorted(measures.items()))}, separators=(",", ":"))
    return None if columns is None else json.dumps(columns, separators=(",", ":"))


def decode_scores(body: str | None) -> tuple[ClientScores | None, dict[str, float]]:
    """The inverse of `encode_scores`."""
    value = None if body is None else json.loads(body)
    columns, measures = (value["clients"], value["measures"]) if isinstance(value, dict) else (value, {})
    scores = None if columns is None else ClientScores(*map(whole_numbers, columns))
    return scores, {str(name): float(number) for name, number in measures.items()}


def whole_numbers(values: Any) -> Ints:
    """A list of JSON as integers.

    >>> whole_numbers([3, 4]).tolist()
    [3, 4]
    """
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise ValueError("a list of integers has another content")
    return np.array(values, np.int64)


def real_numbers(values: Any) -> Floats:
    """A list of JSON as numbers; NaN where the number is not known.

    >>> real_numbers([3, 0.5]).tolist()
    [3.0, 0.5]
    """
    if not isinstance(values, list) or not all(type(value) in (int, float) for value in values):
        raise ValueError("a list of numbers has another content")
    return np.array(values, np.float64)


def devices_note(what: str, version: int, answered: int, asked: int, declined: int, silent: int) -> str:
    """One sentence about the devices that were asked to evaluate a model, or for its loss.

    >>> devices_note("evaluated", 4, 0, 3, 0, 3)
    'version 4 was evaluated by 0 of 3 devices: 0 declined, 3 did not answer'
    """
    return f"version {version} was {what} by {answered} of {asked} devices: {declined} declined, {silent} did not answer"


def evaluated_by_devices(notes: Iterable[str]) -> frozenset[int]:
    """The versions that devices evaluated: their scores cannot be derived again.

    >>> sorted(evaluated_by_devices([devices_note("evaluated", 4, 2, 3, 0, 1), "patience ended"]))
    [4]
    """
    return frozenset(int(match[1]) for match in map(_BY_DEVICES.match, notes) if match is not None)
