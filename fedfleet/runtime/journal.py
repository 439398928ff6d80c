"""The journal store: append-only events in SQLite (WAL), batched, readable while it is written."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.events import Event
from fedfleet.runtime.rows import COLUMNS, NOTE, Row, decode, digested, encode

_APPLICATION = 0x46454446  # "FEDF": how we know our own files
_FORMAT = 1
_BATCH = 8192
_INSERT = f"INSERT INTO events ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
_SELECT = f"SELECT {', '.join(COLUMNS)} FROM events ORDER BY seq"


class Journal:
    """An open journal. It is a resource: close it. `digest` covers everything appended so far, flushed or not."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._db = connection
        self._path = path
        self._rows: list[Row] = []
        self._hash = hashlib.sha256()
        self.position = 0

    def append(self, events: Sequence[Event]) -> None:
        """Add events; they reach the disk with the batch, or with `flush`."""
        rows = self._rows
        for event in events:
            new, data = encode(event)
            rows += new
            self.position += len(new)
            self._hash.update(data)
        if len(rows) >= _BATCH:
            self.flush()

    def remark(self, text: str) -> None:
        """Add a remark for people; it is no event and stays out of the digest."""
        self._rows.append((0.0, NOTE, 0, 0, 0, 0, 0.0, 0.0, None, text))
        self.position += 1

    def flush(self) -> None:
        """Everything appended so far is on the disk when this returns."""
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

    @property
    def digest(self) -> str:
        """SHA-256 of the digested events: the name of the run."""
        return self._hash.hexdigest()

    def truncate(self, position: int) -> None:
        """Forget what came after this many rows, and take the digest up from what remains."""
        with self._db:
            self._db.execute("DELETE FROM events WHERE seq > ?", (position,))
        self._hash = hashlib.sha256()
        self.position = 0
        for row in self._db.execute(_SELECT):
            self._hash.update(digested(row))
            self.position += 1

    def close(self) -> None:
        """Flush and close."""
        self.flush()
        self._db.close()


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


def rows_of(path: Path) -> Iterable[Row]:
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
    return [note for *_, note in (row for row in rows_of(path) if row[1] == NOTE) if note]


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
