"""Events as journal rows, and back. A row is fixed columns, so that a million tasks stay cheap."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, repeat
from typing import Any, NamedTuple, assert_never

import numpy as np

from fedfleet.core import events
from fedfleet.core.errors import BadInput, RunFailed, printable
from fedfleet.core.events import Event, TaskArrivals, TaskArrived, TasksDropped, TasksSent
from fedfleet.core.records import Ints, Roster, Tally
from fedfleet.store.row_text import (
    decode_columns,
    decode_scores,
    encode_columns,
    encode_scores,
    read_spans,
    real_numbers,
    roster_hash,
    spans,
    whole_numbers,
)


class Row(NamedTuple):
    """One row of the journal. `a` and `b` are what the kind makes of them, `body` is digested text, `note` a diagnostic.

    SQLite keeps NaN as NULL, so that `a` is None when a row with NaN is read back.
    """

    time: float
    kind: int
    round: int = 0
    version: int = 0
    task: int = 0
    client: int = 0
    a: float | None = 0.0
    b: float | None = 0.0
    body: str | None = None
    note: str | None = None


# The same as a plain tuple: the rows of which there are millions are stored so, since named ones cost the store a quarter.
Values = tuple[float, int, int, int, int, int, float | None, float | None, str | None, str | None]


TaskRow = tuple[float, int, int, int, int, int, float | None, float | None]  # without its text


class TaskRows:
    """Rows that have no text, as columns. Each look at them makes them anew, so that a store that failed can try again."""

    __slots__ = ("_columns", "_count")

    def __init__(self, count: int, *columns: Iterable[Any]) -> None:
        self._count = count
        self._columns = columns

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[TaskRow]:
        return zip(*self._columns, strict=False)  # those of which all are alike have no end


class UnreadableRow(BadInput, RunFailed):
    """A row that no run writes; the sentence names it. Bad input for those who read the run, a failure where it is continued."""


class Kind:
    """The numbers of the kinds of rows. They are part of the format: never change one."""

    BEGAN, SEEN, PROBED, SENT, ARRIVED, LOST, TIMER, DROPPED, GATHERED, EVALUATED = range(10)
    REJECTED, FAILED, COMMITTED, ENDED, SPENT, STRUCK, UNWANTED, PACED = range(10, 18)
    NOTE = 99  # a remark for people about how the run was carried out: no event, and not digested


COLUMNS = Row._fields
# Rows of tasks have no text: without its columns they are stored in half the time.
TASK_COLUMNS = COLUMNS[:8]
_PACK = struct.Struct("<dBqqqqddI").pack
_PACKED = np.dtype(
    [("time", "<f8"), ("kind", "u1"), ("round", "<i8"), ("version", "<i8"), ("task", "<i8"), ("client", "<i8"),
     ("a", "<f8"), ("b", "<f8"), ("body", "<u4")]
)  # fmt: skip
_ARRIVED = Kind.ARRIVED
_REAL = (float, int)


def pack_row(row: Values) -> bytes:
    """A row as bytes, without its note."""
    time, kind, round_, version, task, client, a, b, body, _ = row
    text = b"" if body is None else body.encode()
    return _PACK(time, kind, round_, version, task, client, _number(a), _number(b), len(text)) + text


def digest_bytes(row: Values) -> bytes:
    """The bytes of a row that enter the digest."""
    return b"" if row[1] == Kind.NOTE else pack_row(row)


KIND_NAMES = {number: name.lower() for name, number in vars(Kind).items() if not name.startswith("_") and isinstance(number, int)}


def describe_row(row: Values) -> str:
    """What kind of row this is, and when, in a few words."""
    kind = KIND_NAMES.get(row[1], f"of the unknown kind {row[1]!r}")
    about = [f"{name} {value}" for name, value in (("task", row[4]), ("client", row[5])) if value]
    return " ".join([f"{kind} at time {row[0]}", *about])


def _number(value: float | None) -> float:
    """One NaN for all: which of its bit patterns it was does not survive the store."""
    return math.nan if value is None or value != value else value


def encode(event: Event) -> tuple[list[Values], bytes]:
    """The rows of an event, and their digested bytes."""
    if type(event) is TaskArrived:
        row, data = encode_arrival(event)
        return [row], data
    tasks = encode_tasks(event)
    if tasks is not None:
        rows, data = tasks
        return [(*row, None, None) for row in rows], data
    if type(event) is TasksSent:
        return _encode_tailored(event)
    row = _encode_one(event)
    return [row], digest_bytes(row)


def encode_arrival(event: TaskArrived) -> tuple[Values, bytes]:
    """The row of an arrival, and its digested bytes."""
    time, task, client, seconds, size = event.time, event.task, event.client, event.seconds, event.bytes_up
    row = (time, _ARRIVED, 0, 0, task, client, seconds, size, None, None)
    return row, _PACK(time, _ARRIVED, 0, 0, task, client, seconds, size, 0)


def encode_arrivals(arrivals: TaskArrivals) -> tuple[TaskRows, bytes]:
    """The rows of many arrivals, without their text, and their digested bytes."""
    a = arrivals
    return _encode_many(a.times, _ARRIVED, 0, 0, a.tasks, a.clients, a.seconds, a.bytes_up)


def encode_tasks(event: Event) -> tuple[TaskRows, bytes] | None:
    """The rows of an event about many tasks, without their text, and their digested bytes; None where they have text."""
    if type(event) is TasksSent:
        n = len(event.clients)
        if event.steps.any() or not (event.share == 1.0).all() or event.settings or event.due is not None:
            return None
        tasks, clients = np.arange(event.first, event.first + n), event.clients
        return _encode_many(event.time, Kind.SENT, event.round, event.version, tasks, clients, event.samples, event.bytes_down)
    if type(event) is TasksDropped:
        none = np.zeros(len(event.tasks))
        return _encode_many(event.time, Kind.DROPPED, 0, 0, event.tasks, event.clients, event.seconds, none)
    return None


def _encode_one(event: Event) -> Row:
    t = event.time
    match event:
        case events.RunBegan():
            body = {"seed": event.seed, "clients": event.clients, "spec": event.spec_digest, "model": event.model_hash}
            return Row(t, Kind.BEGAN, body=json.dumps(body))
        case events.CandidatesSeen():
            return Row(t, Kind.SEEN, task=len(event.roster.clients), body=roster_hash(event.roster))
        case events.Probed():
            body = {"stat": event.stat, "clients": event.clients.tolist(), "values": event.values.tolist()}
            if event.spent:
                body["spent"] = encode_columns(event.spent)
            return Row(t, Kind.PROBED, task=len(event.clients), body=json.dumps(body))
        case events.TaskLost():
            return Row(t, Kind.LOST, task=event.task, client=event.client, a=event.seconds, body=event.reason)
        case events.TaskStruck():
            return Row(t, Kind.STRUCK, task=event.task, client=event.client, a=event.seconds, body=event.reason)
        case events.ReportUnwanted():
            return Row(t, Kind.UNWANTED, task=event.task, client=event.client, b=event.bytes_up, body=event.reason)
        case events.TasksSpent():
            costs = {"tasks": spans(event.tasks), "clients": event.clients.tolist(), "spent": encode_columns(event.spent)}
            return Row(t, Kind.SPENT, task=len(event.tasks), body=json.dumps(costs))
        case events.TimerFired():
            return Row(t, Kind.TIMER)
        case events.ReportsGathered():
            means = {name: float(np.mean(v)) for name, v in event.stats.items() if len(v)}
            return Row(
                t, Kind.GATHERED, task=len(event.tasks), client=len(event.rejected), body=spans(event.tasks), note=json.dumps(means)
            )
        case events.Evaluated():
            correct, total = event.unseen or (0, 0)
            return Row(
                t, Kind.EVALUATED, version=event.version, task=correct, client=total, a=event.correct, b=event.total,
                body=encode_scores(event.clients, event.measures), note=repr(event.loss),
            )  # fmt: skip
        case events.ReportRejected():
            return Row(t, Kind.REJECTED, task=event.task, client=event.client, body=event.reason)
        case events.PaceSet():
            return Row(t, Kind.PACED, a=event.seconds, body=event.name)
        case events.RoundFailed():
            return Row(t, Kind.FAILED, event.round, body=event.reason)
        case events.ModelCommitted():
            name, loss = str(event.model_hash), repr(event.loss)
            return Row(t, Kind.COMMITTED, event.round, event.version, event.folded, body=name, note=loss)
        case events.RunEnded():
            return Row(t, Kind.ENDED, body=event.reason)
        case TaskArrived() | TasksSent() | TasksDropped():
            raise AssertionError("encoded above")
        case _:
            assert_never(event)


def _encode_tailored(e: TasksSent) -> tuple[list[Values], bytes]:
    """Tasks whose clients have work of their own."""
    tasks = np.arange(e.first, e.first + len(e.clients))
    columns = (tasks, e.clients, e.samples, e.bytes_down, e.steps, e.share)
    rows: list[Values] = []
    for i, (task, client, samples, down, steps, share) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        work: dict[str, Any] = {"steps": steps, "share": share}
        if e.due is not None:
            work["due"] = e.due
        if e.settings:
            work["settings"] = {name: float(column[i]) for name, column in e.settings.items()}
        rows.append(Row(e.time, Kind.SENT, e.round, e.version, task, client, samples, down, json.dumps(work)))
    return rows, b"".join(map(digest_bytes, rows))


def _encode_many(
    times: float | Sequence[float], kind: int, round_: int, version: int, tasks: Any, clients: Any, a: Any, b: Any
) -> tuple[TaskRows, bytes]:
    table = np.zeros(len(tasks), _PACKED)
    table["time"], table["kind"], table["round"], table["version"] = times, kind, round_, version
    table["task"], table["client"], table["a"], table["b"] = tasks, clients, a, b
    alike = repeat(times) if isinstance(times, float | int) else times
    columns = (column.tolist() if isinstance(column, np.ndarray) else column for column in (tasks, clients, a, b))
    return TaskRows(len(tasks), alike, repeat(kind), repeat(round_), repeat(version), *columns), table.tobytes()


def decode(rows: Iterable[Values], first: int = 1) -> Iterator[Event]:
    """Events from rows, of which the first has this number; tasks that went out or were dropped together come back together."""
    return (event for _, event in decode_with_numbers(enumerate(rows, first)))


def decode_with_numbers(rows: Iterable[tuple[int, Values]]) -> Iterator[tuple[int, Event]]:
    """Events from numbered rows, each with the number of its first row; a row that no run writes is `UnreadableRow`.

    Whether events fit to those before is not looked at here (`store.journal_checks`).
    """

    def group_key(pair: tuple[int, Row]) -> tuple[Any, ...]:
        row = pair[1]
        return (row.kind, row.time, row.round) if row.kind in (Kind.SENT, Kind.DROPPED) else (row.kind,)

    named_rows = ((number, _checked_row(number, row)) for number, row in rows if row[1] != Kind.NOTE)
    for (kind, *_), group in groupby(named_rows, key=group_key):
        if kind in (Kind.SENT, Kind.DROPPED):
            pairs = list(group)
            rows_together, number = [row for _, row in pairs], pairs[0][0]
            with row_errors(number):
                if kind == Kind.SENT:
                    event = _decode_sent(rows_together)
                else:
                    tasks, clients = _ints([r.task for r in rows_together]), _ints([r.client for r in rows_together])
                    seconds = np.array([_number(r.a) for r in rows_together])
                    event = TasksDropped(rows_together[0].time, tasks, clients, seconds)
            yield number, event
        else:
            for number, row in group:
                with row_errors(number):
                    event = _decode_one(row, number)
                yield number, event


def _checked_row(number: int, row: Values) -> Row:
    """The row, if each of its columns holds what a run writes there."""
    time, kind, round_, version, task, client, a, b, body, note = row
    whole = type(round_) is type(version) is type(task) is type(client) is type(kind) is int
    real = isinstance(time, _REAL) and (a is None or isinstance(a, _REAL)) and (b is None or isinstance(b, _REAL))
    if not (whole and real and (body is None or type(body) is str) and (note is None or type(note) is str)):
        with row_errors(number):
            raise ValueError("a column holds another type")
    return Row._make(row)


@contextmanager
def row_errors(number: int) -> Iterator[None]:
    """Whatever is wrong inside is wrong with this row."""
    try:
        yield
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        reason = printable(" ".join(str(error).split()) or type(error).__name__)
        raise UnreadableRow(
            f"row {number} of the journal has unexpected content ({reason}); the journal was changed or damaged: restore the run "
            "folder, or run the spec again"
        ) from error


def _decode_sent(rows: list[Row]) -> TasksSent:
    first = rows[0]
    work: list[dict[str, Any]] = [json.loads(r.body) if r.body else {} for r in rows]
    settings = {name: real_numbers([w["settings"][name] for w in work]) for name in work[0].get("settings", {})}
    due = None if work[0].get("due") is None else float(work[0]["due"])
    if any(r.task != task or r.version != first.version for task, r in enumerate(rows, first.task)):
        raise ValueError("the tasks of one wave do not follow one another")
    return TasksSent(
        first.time, first.round, first.version, first.task, _ints([r.client for r in rows]),
        whole_numbers([w.get("steps", 0) for w in work]), real_numbers([w.get("share", 1.0) for w in work]),
        np.array([_number(r.a) for r in rows]), np.array([_number(r.b) for r in rows]), settings, due,
    )  # fmt: skip


def _decode_one(row: Row, number: int) -> Event:
    t, text = row.time, row.body or ""
    match row.kind:
        case Kind.BEGAN:
            began = json.loads(text)
            return events.RunBegan(t, began["seed"], began["clients"], began["spec"], began["model"])
        case Kind.SEEN:
            # A roster of which only the size is known, as the journal keeps it.
            n = row.task
            unknown, zeros = np.broadcast_to(np.int64(-1), n), np.broadcast_to(np.int64(0), n)  # they take no room
            return events.CandidatesSeen(t, Roster(unknown, np.broadcast_to(np.uint64(0), n), zeros))
        case Kind.PROBED:
            probed = json.loads(text)
            clients, values = whole_numbers(probed["clients"]), real_numbers(probed["values"])
            return events.Probed(t, probed["stat"], clients, values, decode_columns(probed.get("spent", {}), len(clients)))
        case Kind.ARRIVED:
            return TaskArrived(t, row.task, row.client, _number(row.a), _number(row.b))
        case Kind.LOST:
            return events.TaskLost(t, row.task, row.client, _number(row.a), text)
        case Kind.STRUCK:
            return events.TaskStruck(t, row.task, row.client, _number(row.a), text)
        case Kind.UNWANTED:
            return events.ReportUnwanted(t, row.task, row.client, _number(row.b), text)
        case Kind.SPENT:
            costs, n = json.loads(text), row.task
            clients = whole_numbers(costs["clients"])
            if len(clients) != n:
                raise ValueError(f"{len(clients)} clients of {n} tasks")
            return events.TasksSpent(t, read_spans(costs["tasks"], number), clients, decode_columns(costs["spent"], n))
        case Kind.TIMER:
            return events.TimerFired(t)
        case Kind.GATHERED:
            means = json.loads(row.note or "{}")
            # Each task has a row of its own before this one.
            return events.ReportsGathered(t, None, read_spans(text, number), {n: real_numbers([v]) for n, v in means.items()})
        case Kind.EVALUATED:
            (scores, measures), loss = decode_scores(row.body), float(row.note or "nan")
            unseen = Tally(row.task, row.client) if row.client else None
            return events.Evaluated(t, row.version, int(row.a or 0), int(row.b or 0), loss, scores, unseen, measures)
        case Kind.REJECTED:
            return events.ReportRejected(t, row.task, row.client, text)
        case Kind.PACED:
            return events.PaceSet(t, text, _number(row.a))
        case Kind.FAILED:
            return events.RoundFailed(t, row.round, text)
        case Kind.COMMITTED:
            return events.ModelCommitted(t, row.round, row.version, text, row.task, float(row.note or "nan"))
        case Kind.ENDED:
            return events.RunEnded(t, text)
        case _:
            raise ValueError(f"unknown kind of journal row: {row.kind}")


def _ints(values: list[int]) -> Ints:
    return np.array(values, np.int64)
