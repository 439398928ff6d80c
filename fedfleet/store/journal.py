"""The journal store: append-only events in SQLite (WAL), batched, readable while it is written."""

from __future__ import annotations

import hashlib
import sqlite3
import struct
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.events import Event, ModelCommitted, TaskArrivals, TaskArrived
from fedfleet.store.hash_chain import Chain, ChainCheck, check_chain
from fedfleet.store.journal_checks import read_events
from fedfleet.store.journal_file import identity_in, make_schema, merge_wal, open_file, reader
from fedfleet.store.journal_rows import (
    COLUMNS,
    TASK_COLUMNS,
    Kind,
    Row,
    TaskRows,
    UnreadableRow,
    Values,
    digest_bytes,
    encode,
    encode_arrival,
    encode_arrivals,
    encode_tasks,
)

_BATCH = 8192
# So many rows without text are worth a statement that leaves text out.
_OWN_STATEMENT = 48
# Rows are on the disk after so long at the latest, if anything follows them: people watch a run by its journal.
_BATCH_SECONDS = 1.0
_INSERT, _INSERT_TASK = (
    f"INSERT INTO events ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})" for columns in (COLUMNS, TASK_COLUMNS)
)
_SELECT = f"SELECT {', '.join(COLUMNS)} FROM events ORDER BY seq"
_LINKS = "SELECT seq, link FROM links ORDER BY seq"
_NUMBERED = f"SELECT seq, {', '.join(COLUMNS)} FROM events ORDER BY seq"
_FROM = f"SELECT seq, {', '.join(COLUMNS)} FROM events WHERE seq >= ?"


class Journal:
    """An open journal. It is a resource: close it. `digest` and `position` cover everything appended so far.

    Rows reach the disk together with the links that seal them (`store.hash_chain`): one per batch, and one per commit. A batch is
    full after 8192 rows or after a second. Naming a large model takes milliseconds, in which the run can go on: one thread beside
    it finds the name out, and what was appended behind it waits in order. Whoever needs the rows (`flush`, `digest`, `position`,
    `close`) waits too.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._db = connection
        self._path = path
        # What is stored next, in order: statements, each with the rows that it takes; and how many rows these are.
        self._batch: list[tuple[str, list[Any] | TaskRows]] = []
        self._batch_rows = 0
        self._links: list[tuple[int, bytes]] = []
        self._chain = Chain(identity_in(connection))
        self._waiting: deque[Event | str] = deque()  # events, and remarks, behind a name that is not known yet
        self._pending_name: Future[str] | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._stored_at = time.monotonic()

    def append(self, events: Sequence[Event]) -> None:
        """Add events; they reach the disk with the batch, or with `flush`."""
        if self._waiting:
            self._waiting += events
            self._write_waiting(wait=len(self._waiting) > _BATCH)
            return
        if type(events) is TaskArrivals:
            self._add_tasks(*encode_arrivals(events))
            events = ()
        for event in events:
            if type(event) is TaskArrived and not self._waiting:
                row, data = encode_arrival(event)
                self._rows_for(_INSERT).append(row)
                self._batch_rows += 1
                self._chain.rows += 1
                self._chain.digest.update(data)
            elif self._waiting or (type(event) is ModelCommitted and self._must_wait(event)):
                self._waiting.append(event)
            else:
                self._write(event)
        if self._is_due():
            self._store()

    def remark(self, text: str) -> None:
        """Add a remark for people; it is no event and stays out of the digest."""
        self._waiting.append(text)
        self._write_waiting(wait=False)

    def flush(self) -> None:
        """Everything appended so far is on the disk when this returns."""
        self._write_waiting(wait=True)
        self._store()

    @property
    def digest(self) -> str:
        """SHA-256 of the digested events: the name of the run."""
        self._write_waiting(wait=True)
        return self._chain.digest.hexdigest()

    @property
    def position(self) -> int:
        """How many rows there are."""
        self._write_waiting(wait=True)
        return self._chain.rows

    @property
    def link(self) -> str:
        """The last link, over everything that was flushed."""
        return self._chain.link.hex()

    def truncate(self, position: int) -> None:
        """Forget what came after this many rows, and take digest and chain up from what remains."""
        self.flush()
        try:
            with self._db:
                self._db.execute("DELETE FROM events WHERE seq > ?", (position,))
                self._db.execute("DELETE FROM links WHERE seq > ?", (position,))
            chain, links = Chain(identity_in(self._db)), {seq for seq, _ in self._db.execute(_LINKS)}
            for row in self._db.execute(_SELECT):
                chain.add_row(row, digest_bytes(row))
                if chain.rows in links:
                    chain.add_link()
        except sqlite3.Error as error:
            raise self._write_error(error) from error
        self._chain = chain

    def close(self) -> None:
        """Flush and close; what is left is one file, which can be read on read-only ground.

        Ctrl-C may fall between a row and its link: then what is on the disk is whole, and the rest is done again on resume.
        """
        try:
            if not isinstance(sys.exc_info()[1], KeyboardInterrupt):
                self.flush()
        finally:
            if self._thread is not None:
                self._thread.shutdown()
            merge_wal(self._db)
            self._db.close()

    def _write(self, event: Event) -> None:
        tasks = encode_tasks(event)
        if tasks is not None:
            self._add_tasks(*tasks)
            return
        new, data = encode(event)
        if len(new) == 1:
            self._add_row(new[0], data)
        else:  # rows of events that have several hold no notes
            self._rows_for(_INSERT).extend(new)
            self._batch_rows += len(new)
            self._chain.rows += len(new)
            self._chain.digest.update(data)
        if type(event) is ModelCommitted:
            self._close_link()

    def _add_row(self, row: Values, data: bytes) -> None:
        self._rows_for(_INSERT).append(row)
        self._batch_rows += 1
        self._chain.add_row(row, data)

    def _add_tasks(self, rows: TaskRows, data: bytes) -> None:
        """Add rows that have no text; many are made when they are stored, by a statement of their own."""
        if len(rows) < _OWN_STATEMENT:
            self._rows_for(_INSERT).extend((*row, None, None) for row in rows)
        else:
            self._batch.append((_INSERT_TASK, rows))
        self._batch_rows += len(rows)
        self._chain.rows += len(rows)
        self._chain.digest.update(data)

    def _rows_for(self, statement: str) -> list[Any]:
        """The list that the next row for this statement belongs to."""
        if self._batch:
            last, rows = self._batch[-1]
            if last is statement and isinstance(rows, list):
                return rows
        new: list[Any] = []
        self._batch.append((statement, new))
        return new

    def _close_link(self) -> None:
        link = self._chain.add_link()
        self._links.append((self._chain.linked_rows, link))

    def _must_wait(self, event: ModelCommitted) -> bool:
        """Whether the name of this model is still unknown; then the thread begins to find it out."""
        if isinstance(event.model_hash, str) or event.model_hash.is_computed:
            return False
        if self._pending_name is None:
            self._thread = self._thread or ThreadPoolExecutor(1, "fedfleet-names")
            self._pending_name = self._thread.submit(str, event.model_hash)
        return True

    def _write_waiting(self, *, wait: bool) -> None:
        """Write what waits, as far as names are known."""
        waiting = self._waiting
        while waiting:
            if self._pending_name is not None:
                if not wait and not self._pending_name.done():
                    return
                self._pending_name.result()  # an error of the thread surfaces here
                self._pending_name = None
            first = waiting[0]
            if isinstance(first, str):
                remark = Row(0.0, Kind.NOTE, note=first)
                self._add_row(remark, digest_bytes(remark))
            elif isinstance(first, ModelCommitted) and self._must_wait(first):
                continue
            else:
                self._write(first)
            waiting.popleft()
        if self._is_due():
            self._store()

    def _is_due(self) -> bool:
        return self._batch_rows >= _BATCH or time.monotonic() - self._stored_at > _BATCH_SECONDS

    def _store(self) -> None:
        self._stored_at = time.monotonic()
        if not self._batch:
            return
        if self._chain.linked_rows < self._chain.rows:
            self._close_link()
        try:
            with self._db:
                for statement, rows in self._batch:
                    self._db.executemany(statement, rows)
                self._db.executemany("INSERT INTO links (seq, link) VALUES (?, ?)", self._links)
        except sqlite3.Error as error:
            raise self._write_error(error) from error
        self._batch.clear()
        self._batch_rows = 0
        self._links.clear()

    def _write_error(self, error: sqlite3.Error) -> RunFailed:
        return RunFailed(f"the journal {self._path} cannot be written ({error}); check disk space and permissions, then resume")


def memory_journal() -> Journal:
    """A journal that lives as long as the process, for its digest."""
    db = sqlite3.connect(":memory:")
    make_schema(db, "")
    return Journal(db, Path(":memory:"))


def create(path: Path, identity: str = "", rows: Iterable[Values] = (), links: Iterable[int] = ()) -> Journal:
    """A new journal; it appears under its name only when it is whole.

    `identity` is what the chain begins with. `rows` are those of a damaged journal up to where it is sound, with links after these
    numbers of them.
    """
    draft, wal_files = path.with_name(path.name + ".part"), (f"{path.name}-wal", f"{path.name}-shm")
    try:
        draft.unlink(missing_ok=True)
        db = sqlite3.connect(draft)
        make_schema(db, identity)
        chain, linked = Chain(identity), set(links)
        with db:
            for row in rows:
                db.execute(_INSERT, row)
                chain.add_row(row, digest_bytes(row))
                if chain.rows in linked:
                    db.execute("INSERT INTO links (seq, link) VALUES (?, ?)", (chain.rows, chain.add_link()))
        db.close()
        for name in wal_files:  # they belonged to the journal that this one replaces
            (path.parent / name).unlink(missing_ok=True)
        draft.replace(path)
    except (sqlite3.Error, OSError) as error:
        raise BadInput(f"the journal {path} cannot be created ({error}); choose a folder that can be written") from None
    return reopen(path)


def reopen(path: Path) -> Journal:
    """An existing journal, to go on writing; truncate it to the checkpoint first."""
    db = open_file(path, "rw")
    try:
        db.execute("PRAGMA journal_mode = WAL")
        return Journal(db, path)
    except sqlite3.Error as error:
        db.close()
        raise RunFailed(f"the journal {path} cannot be written ({error}); check disk space and permissions, then resume") from error


def require(path: Path) -> None:
    """Refuse a file that is no journal."""
    open_file(path, "ro").close()


def read(path: Path, clients: int | None = None) -> Iterator[Event]:
    """The events of a journal, also while a run is still writing it; `UnreadableRow` if they do not fit together, or if its run has
    more clients."""
    return read_events(enumerate(rows_of(path), 1), clients)


def rows_of(path: Path) -> Iterator[Values]:
    """The raw rows of a journal."""
    with reader(path) as db:
        yield from db.execute(_SELECT)


def numbered_rows(path: Path) -> list[tuple[int, Values]]:
    """The rows of a journal with their numbers, as far as they can be read: `check_journal` says whether that is all."""
    with reader(path) as db:
        return list(_sound_rows(db, []))


def rows_from(path: Path, number: int, limit: int, kinds: Sequence[int] = ()) -> list[tuple[int, Values]]:
    """Up to that many rows from this number on, of these kinds or of all, for a reader that follows a journal during the run.

    It is opened for reading only and closed at once: the writer is never in anybody's way.
    """
    condition = f" AND (kind IN ({', '.join(map(str, kinds))}) OR seq = ?)" if kinds else ""
    with reader(path, "ro") as db:
        rows = db.execute(f"{_FROM}{condition} ORDER BY seq LIMIT ?", (number, *((number,) if kinds else ()), limit))
        return [(row[0], row[1:]) for row in rows]


def check_journal(path: Path) -> ChainCheck:
    """How far the stored rows hold against their links; damage of the file itself is a fault like any other."""
    with reader(path) as db:
        db.execute("BEGIN")  # rows and links of one moment, also while a run is writing
        fault: list[str] = []
        result = check_chain(identity_in(db), _sound_rows(db, fault), dict(db.execute(_LINKS)))
        return replace(result, fault=f"it is damaged after row {result.rows}: {fault[0]}") if fault else result


def identity_of(path: Path) -> str:
    """What the chain of a stored journal begins with."""
    with reader(path) as db:
        return identity_in(db)


def salvage(path: Path, position: int, links: Iterable[int]) -> Journal:
    """A damaged journal written anew up to where it is sound, ready to go on."""
    with reader(path) as db:
        identity = identity_in(db)
        rows = list(islice(db.execute(_SELECT), position)) if position else []
    return create(path, identity, rows, (n for n in links if n <= position))


def _sound_rows(db: sqlite3.Connection, fault: list[str]) -> Iterator[tuple[int, Values]]:
    try:
        for number, *row in db.execute(_NUMBERED):
            yield number, tuple(row)  # pyright: ignore[reportReturnType]
    except (sqlite3.Error, UnicodeError) as error:
        fault.append(str(error))


def digest_of(path: Path) -> str:
    """The digest of a stored journal."""
    h = hashlib.sha256()
    try:
        for row in rows_of(path):
            h.update(digest_bytes(row))
    except (struct.error, TypeError, AttributeError) as error:
        raise UnreadableRow(f"{path} has an unexpected row ({error})") from error
    return h.hexdigest()


def remarks_of(path: Path) -> list[str]:
    """The remarks for people in a stored journal, in the order in which they were made."""
    return [row.note for row in map(Row._make, rows_of(path)) if row.kind == Kind.NOTE and row.note]
