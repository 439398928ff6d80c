"""The journal store: append-only events in SQLite (WAL), batched, readable while it is written."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.events import Event, ModelCommitted, TaskArrived
from fedfleet.runtime.rows import COLUMNS, Kind, Row, Values, decode, digested, encode, encode_arrival

_APPLICATION = 0x46454446  # "FEDF": how we know our own files
_FORMAT = 2
_BATCH = 8192
_INSERT = f"INSERT INTO events ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
_SELECT = f"SELECT {', '.join(COLUMNS)} FROM events ORDER BY seq"


class Journal:
    """An open journal. It is a resource: close it. `digest` and `position` cover everything appended so far.

    Naming a large model takes milliseconds, in which the run can go on: one thread beside it finds the name out, and what
    was appended behind it waits in order. Whoever needs the rows (`flush`, `digest`, `position`, `close`) waits too.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._db = connection
        self._path = path
        self._rows: list[Values] = []
        self._hash = hashlib.sha256()
        self._position = 0
        self._behind: deque[Event | str] = deque()  # events, and remarks, behind a name that is not known yet
        self._name: Future[str] | None = None
        self._thread: ThreadPoolExecutor | None = None

    def append(self, events: Sequence[Event]) -> None:
        """Add events; they reach the disk with the batch, or with `flush`."""
        if self._behind:
            self._behind += events
            self._catch_up(wait=len(self._behind) > _BATCH)
            return
        rows = self._rows
        for event in events:
            if type(event) is TaskArrived and not self._behind:  # half of all rows
                row, data = encode_arrival(event)
                rows.append(row)
                self._position += 1
                self._hash.update(data)
            elif self._behind or (type(event) is ModelCommitted and self._must_wait(event)):
                self._behind.append(event)
            else:
                self._write(event)
        if len(rows) >= _BATCH:
            self._store()

    def remark(self, text: str) -> None:
        """Add a remark for people; it is no event and stays out of the digest."""
        self._behind.append(text)
        self._catch_up(wait=False)

    def flush(self) -> None:
        """Everything appended so far is on the disk when this returns."""
        self._catch_up(wait=True)
        self._store()

    @property
    def digest(self) -> str:
        """SHA-256 of the digested events: the name of the run."""
        self._catch_up(wait=True)
        return self._hash.hexdigest()

    @property
    def position(self) -> int:
        """How many rows there are."""
        self._catch_up(wait=True)
        return self._position

    def truncate(self, position: int) -> None:
        """Forget what came after this many rows, and take the digest up from what remains."""
        self.flush()
        with self._db:
            self._db.execute("DELETE FROM events WHERE seq > ?", (position,))
        self._hash = hashlib.sha256()
        self._position = 0
        for row in self._db.execute(_SELECT):
            self._hash.update(digested(row))
            self._position += 1

    def close(self) -> None:
        """Flush and close."""
        try:
            self.flush()
        finally:
            if self._thread is not None:
                self._thread.shutdown()
            self._db.close()

    def _write(self, event: Event) -> None:
        new, data = encode(event)
        self._rows += new
        self._position += len(new)
        self._hash.update(data)

    def _must_wait(self, event: ModelCommitted) -> bool:
        """Whether the name of this model is still unknown; then the thread begins to find it out."""
        if isinstance(event.model_hash, str) or event.model_hash.known:
            return False
        if self._name is None:
            self._thread = self._thread or ThreadPoolExecutor(1, "fedfleet-names")
            self._name = self._thread.submit(str, event.model_hash)
        return True

    def _catch_up(self, *, wait: bool) -> None:
        """Write what waits, as far as names are known."""
        behind = self._behind
        while behind:
            if self._name is not None:
                if not wait and not self._name.done():
                    return
                self._name.result()  # an error of the thread surfaces here
                self._name = None
            first = behind[0]
            if isinstance(first, str):
                self._rows.append(Row(0.0, Kind.NOTE, note=first))
                self._position += 1
            elif isinstance(first, ModelCommitted) and self._must_wait(first):
                continue
            else:
                self._write(first)
            behind.popleft()
        if len(self._rows) >= _BATCH:
            self._store()

    def _store(self) -> None:
        if not self._rows:
            return
        try:
            with self._db:
                self._db.executemany(_INSERT, self._rows)
        except sqlite3.Error as wrong:
            raise RunFailed(
                f"the journal {self._path} cannot be written ({wrong}); free some space, then resume"
            ) from wrong
        self._rows.clear()


def in_memory() -> Journal:
    """A journal that lives as long as the process, for its digest."""
    db = sqlite3.connect(":memory:")
    _make_schema(db)
    return Journal(db, Path(":memory:"))


def create(path: Path) -> Journal:
    """A new, empty journal; it appears under its name only when it is whole."""
    draft = path.with_name(path.name + ".part")
    try:
        draft.unlink(missing_ok=True)
        db = sqlite3.connect(draft)
        _make_schema(db)
        db.close()
        draft.replace(path)
    except (sqlite3.Error, OSError) as wrong:
        raise BadInput(f"the journal {path} cannot be made ({wrong}); choose a folder that can be written") from None
    return reopen(path)


def reopen(path: Path) -> Journal:
    """An existing journal, to go on writing; truncate it to the checkpoint first."""
    db = _open(path, "rw")
    db.execute("PRAGMA journal_mode = WAL")
    return Journal(db, path)


def _make_schema(db: sqlite3.Connection) -> None:
    with db:
        db.execute(f"PRAGMA application_id = {_APPLICATION}")
        db.execute(f"PRAGMA user_version = {_FORMAT}")
        db.execute(
            "CREATE TABLE events (seq INTEGER PRIMARY KEY, time REAL, kind INTEGER, round INTEGER, version INTEGER, "
            "task INTEGER, client INTEGER, a REAL, b REAL, body TEXT, note TEXT)"
        )


def read(path: Path) -> Iterator[Event]:
    """The events of a journal, also while a run is still writing it."""
    return decode(rows_of(path))


def rows_of(path: Path) -> Iterable[Values]:
    """The raw rows of a journal."""
    # A reader that may write tidies the WAL files away behind it; on read-only ground nothing can change under us.
    db = _open(path, "rw" if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK) else "ro&immutable=1")
    try:
        yield from db.execute(_SELECT)
    except sqlite3.Error as wrong:
        raise BadInput(f"{path} is damaged: {wrong}") from None
    finally:
        db.close()


def digest_of(path: Path) -> str:
    """The digest of a stored journal."""
    h = hashlib.sha256()
    for row in rows_of(path):
        h.update(digested(row))
    return h.hexdigest()


def remarks_of(path: Path) -> list[str]:
    """The remarks for people in a stored journal, in the order in which they were made."""
    return [row.note for row in map(Row._make, rows_of(path)) if row.kind == Kind.NOTE and row.note]


def _open(path: Path, mode: str) -> sqlite3.Connection:
    if not path.is_file():
        raise BadInput(f"there is no journal at {path}; name the folder of a run")
    try:
        db = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True)
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (form,) = db.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error as wrong:
        raise BadInput(f"{path} is not a FedFleet journal or is damaged: {wrong}") from None
    if application != _APPLICATION or form != _FORMAT:
        db.close()
        what = "was not written by FedFleet" if application != _APPLICATION else f"has format {form}, not {_FORMAT}"
        raise BadInput(f"{path} {what}; name the folder of a run made by this version")
    return db
