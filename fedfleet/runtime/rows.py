"""Events as journal rows, and back. A row is fixed columns, so that a million tasks stay cheap.

Columns: time, kind, round, version, task, client, a, b, body (digested text), note (diagnostics, not digested).
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, assert_never

import numpy as np

from fedfleet.core.events import (
    CandidatesSeen,
    Evaluated,
    Event,
    ModelCommitted,
    Probed,
    ReportRejected,
    ReportsGathered,
    RoundFailed,
    RunBegan,
    RunEnded,
    TaskArrived,
    TaskLost,
    TasksDropped,
    TasksSent,
    TimerFired,
)
from fedfleet.core.records import ClientScores, Ints, Roster

Row = tuple[float, int, int, int, int, int, float, float, str | None, str | None]
COLUMNS = ("time", "kind", "round", "version", "task", "client", "a", "b", "body", "note")
KINDS: tuple[type[Any], ...] = (
    RunBegan, CandidatesSeen, Probed, TasksSent, TaskArrived, TaskLost, TimerFired, TasksDropped,
    ReportsGathered, Evaluated, ReportRejected, RoundFailed, ModelCommitted, RunEnded,
)  # fmt: skip
(BEGAN, SEEN, PROBED, SENT, ARRIVED, LOST, TIMER, DROPPED, GATHERED, EVALUATED, REJECTED, FAILED, COMMITTED, ENDED) = (
    range(14)
)

NOTE = 99  # a remark for people about how the run was carried out: no event, and not digested
_PACK = struct.Struct("<dBqqqqddI").pack
_PACKED = np.dtype(
    [("time", "<f8"), ("kind", "u1"), ("round", "<i8"), ("version", "<i8"), ("task", "<i8"), ("client", "<i8"),
     ("a", "<f8"), ("b", "<f8"), ("body", "<u4")]
)  # fmt: skip


def digested(row: Row) -> bytes:
    """The bytes of a row that enter the digest."""
    time, kind, round_, version, task, client, a, b, body, _ = row
    if kind == NOTE:
        return b""
    if body is None:
        return _PACK(time, kind, round_, version, task, client, a, b, 0)
    text = body.encode()
    return _PACK(time, kind, round_, version, task, client, a, b, len(text)) + text


def encode(event: Event) -> tuple[list[Row], bytes]:
    """The rows of an event, and their digested bytes."""
    if type(event) is TaskArrived:  # half of all rows
        row = (event.time, ARRIVED, 0, 0, event.task, event.client, event.seconds, event.bytes_up, None, None)
        return [row], _PACK(event.time, ARRIVED, 0, 0, event.task, event.client, event.seconds, event.bytes_up, 0)
    if type(event) is TasksSent:
        return _encode_sent(event)
    if type(event) is TasksDropped:
        return _encode_many(
            event.time, DROPPED, 0, 0, event.tasks, event.clients, event.seconds, np.zeros(len(event.tasks))
        )
    row = _encode_one(event)
    return [row], digested(row)


def _encode_one(event: Event) -> Row:
    t = event.time
    match event:
        case RunBegan():
            body = {"seed": event.seed, "clients": event.clients, "spec": event.spec_digest, "model": event.model_hash}
            return (t, BEGAN, 0, 0, 0, 0, 0.0, 0.0, json.dumps(body), None)
        case CandidatesSeen():
            return (t, SEEN, 0, 0, len(event.roster.clients), 0, 0.0, 0.0, roster_hash(event.roster), None)
        case Probed():
            body = {"stat": event.stat, "clients": event.clients.tolist(), "values": event.values.tolist()}
            return (t, PROBED, 0, 0, len(event.clients), 0, 0.0, 0.0, json.dumps(body), None)
        case TaskLost():
            return (t, LOST, 0, 0, event.task, event.client, event.seconds, 0.0, event.reason, None)
        case TimerFired():
            return (t, TIMER, 0, 0, 0, 0, 0.0, 0.0, None, None)
        case ReportsGathered():
            means = {name: float(np.mean(v)) for name, v in event.stats.items() if len(v)}
            return (
                t,
                GATHERED,
                0,
                0,
                len(event.tasks),
                len(event.rejected),
                0.0,
                0.0,
                spans(event.tasks),
                json.dumps(means),
            )
        case Evaluated():
            return (
                t,
                EVALUATED,
                0,
                event.version,
                0,
                0,
                event.correct,
                event.total,
                _scores(event.clients),
                repr(event.loss),
            )
        case ReportRejected():
            return (t, REJECTED, 0, 0, event.task, event.client, 0.0, 0.0, event.reason, None)
        case RoundFailed():
            return (t, FAILED, event.round, 0, 0, 0, 0.0, 0.0, event.reason, None)
        case ModelCommitted():
            return (
                t,
                COMMITTED,
                event.round,
                event.version,
                event.folded,
                0,
                0.0,
                0.0,
                event.model_hash,
                repr(event.loss),
            )
        case RunEnded():
            return (t, ENDED, 0, 0, 0, 0, 0.0, 0.0, event.reason, None)
        case TaskArrived() | TasksSent() | TasksDropped():
            raise AssertionError("encoded above")
        case _:
            assert_never(event)


def _encode_sent(e: TasksSent) -> tuple[list[Row], bytes]:
    n = len(e.clients)
    tasks = np.arange(e.first, e.first + n)
    if not e.steps.any() and (e.share == 1.0).all():
        return _encode_many(e.time, SENT, e.round, e.version, tasks, e.clients, e.samples, e.bytes_down)
    rows: list[Row] = [
        (e.time, SENT, e.round, e.version, int(tasks[i]), int(e.clients[i]), float(e.samples[i]), float(e.bytes_down[i]),
         f"{int(e.steps[i])} {float(e.share[i])!r}", None)
        for i in range(n)
    ]  # fmt: skip
    return rows, b"".join(digested(row) for row in rows)


def _encode_many(
    time: float, kind: int, round_: int, version: int, tasks: Ints, clients: Ints, a: Any, b: Any
) -> tuple[list[Row], bytes]:
    packed = np.zeros(len(tasks), _PACKED)
    packed["time"], packed["kind"], packed["round"], packed["version"] = time, kind, round_, version
    packed["task"], packed["client"], packed["a"], packed["b"] = tasks, clients, a, b
    rows: list[Row] = [
        (time, kind, round_, version, t, c, x, y, None, None)
        for t, c, x, y in zip(tasks.tolist(), clients.tolist(), a.tolist(), b.tolist(), strict=True)
    ]
    return rows, packed.tobytes()


def decode(rows: Iterable[Row]) -> Iterator[Event]:
    """Events from rows; tasks that went out or were dropped together come back together."""

    def together(row: Row) -> tuple[Any, ...]:
        kind = row[1]
        return (kind, row[0], row[2]) if kind in (SENT, DROPPED) else (kind,)

    events = (row for row in rows if row[1] != NOTE)
    for key, group in groupby(events, key=together):
        if key[0] in (SENT, DROPPED):
            yield _decode_many(list(group))
        else:
            yield from map(_decode_one, group)


def _decode_many(rows: list[Row]) -> Event:
    time, kind, round_, version, first = rows[0][:5]
    tasks, clients = np.array([r[4] for r in rows], np.int64), np.array([r[5] for r in rows], np.int64)
    a, b = np.array([r[6] for r in rows], np.float64), np.array([r[7] for r in rows], np.float64)
    if kind == DROPPED:
        return TasksDropped(time, tasks, clients, a)
    work = [(r[8] or "0 1.0").split() for r in rows]
    steps, share = np.array([int(w[0]) for w in work], np.int64), np.array([float(w[1]) for w in work])
    return TasksSent(time, round_, version, first, clients, steps, share, a, b)


def _decode_one(row: Row) -> Event:
    t, kind, round_, version, task, client, a, b, body, note = row
    text = body or ""
    match kind:
        case 0:
            began = json.loads(text)
            return RunBegan(t, began["seed"], began["clients"], began["spec"], began["model"])
        case 1:
            return CandidatesSeen(t, _unknown_roster(task))
        case 2:
            probed = json.loads(text)
            return Probed(t, probed["stat"], np.array(probed["clients"], np.int64), np.array(probed["values"]))
        case 4:
            return TaskArrived(t, task, client, a, b)
        case 5:
            return TaskLost(t, task, client, a, text)
        case 6:
            return TimerFired(t)
        case 8:
            means = json.loads(note or "{}")
            return ReportsGathered(t, None, read_spans(text), {n: np.array([v]) for n, v in means.items()})
        case 9:
            return Evaluated(t, version, int(a), int(b), float(note or "nan"), _read_scores(body))
        case 10:
            return ReportRejected(t, task, client, text)
        case 11:
            return RoundFailed(t, round_, text)
        case 12:
            return ModelCommitted(t, round_, version, text, task, float(note or "nan"))
        case 13:
            return RunEnded(t, text)
        case _:
            raise ValueError(f"unknown kind of journal row: {kind}")


def spans(tasks: Ints) -> str:
    """Ascending task ids as runs: `0-19 25 30-31`."""
    if not len(tasks):
        return ""
    breaks = np.flatnonzero(np.diff(tasks) != 1)
    firsts = tasks[np.concatenate([[0], breaks + 1])].tolist()
    lasts = tasks[np.concatenate([breaks, [len(tasks) - 1]])].tolist()
    return " ".join(f"{a}-{b}" if b > a else str(a) for a, b in zip(firsts, lasts, strict=True))


def read_spans(text: str) -> Ints:
    """The inverse of `spans`."""
    runs = [span.partition("-") for span in text.split()]
    return np.concatenate([np.arange(int(a), int(b or a) + 1) for a, _, b in runs] or [np.zeros(0, np.int64)]).astype(
        np.int64
    )


def roster_hash(roster: Roster) -> str:
    """A short name for a roster, which itself is not kept."""
    h = hashlib.sha256(roster.clients.tobytes())
    h.update(roster.samples.tobytes())
    return h.hexdigest()[:16]


def _unknown_roster(n: int) -> Roster:
    """A roster of which only the size is known, as the journal keeps it."""
    empty = np.full(n, -1, np.int64)
    return Roster(empty, np.zeros(n, np.uint64), np.zeros(n, np.int64))


def _scores(scores: ClientScores | None) -> str | None:
    if scores is None:
        return None
    columns = [scores.clients.tolist(), scores.correct.tolist(), scores.total.tolist()]
    return json.dumps(columns, separators=(",", ":"))


def _read_scores(body: str | None) -> ClientScores | None:
    return None if body is None else ClientScores(*(np.array(c, np.int64) for c in json.loads(body)))
