"""The file of a journal: an SQLite database of ours, opened for writing or beside a writer, made one file at the end."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fedfleet.core.errors import BadInput

_APPLICATION = 0x46454446  # "FEDF": how we know our own files
FORMAT = 4
_TABLES = ("events", "links", "about")
_TRIES, _PAUSE_SECONDS = 40, 0.025  # of making one file of it at the end, beside readers who come and go


def make_schema(db: sqlite3.Connection, identity: str) -> None:
    """The tables of a new journal; `identity` is what its chain begins with."""
    with db:
        db.execute(f"PRAGMA application_id = {_APPLICATION}")
        db.execute(f"PRAGMA user_version = {FORMAT}")
        db.execute(
            "CREATE TABLE events (seq INTEGER PRIMARY KEY, time REAL, kind INTEGER, round INTEGER, version INTEGER, "
            "task INTEGER, client INTEGER, a REAL, b REAL, body TEXT, note TEXT)"
        )
        db.execute("CREATE TABLE links (seq INTEGER PRIMARY KEY, link BLOB)")
        db.execute("CREATE TABLE about (identity TEXT)")
        db.execute("INSERT INTO about VALUES (?)", (identity,))


def identity_in(db: sqlite3.Connection) -> str:
    """What the chain of this journal begins with."""
    rows = db.execute("SELECT identity FROM about").fetchall()
    if len(rows) != 1 or not isinstance(rows[0][0], str):
        raise sqlite3.DatabaseError("it does not name its run")
    return rows[0][0]


def open_file(path: Path, mode: str) -> sqlite3.Connection:
    """Open a journal of this format; `BadInput` says what a file is instead."""
    if not path.is_file():
        raise BadInput(f"there is no journal at {path}; name the folder of a run")
    try:
        db = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True)
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error as error:
        raise BadInput(f"{path} is not a FedFleet journal or is damaged: {error}") from None
    if application != _APPLICATION or version != FORMAT:
        db.close()
        what = "was not written by FedFleet" if application != _APPLICATION else f"has format {version}, not {FORMAT}"
        raise BadInput(f"{path} {what}; name the folder of a run made by this version")
    try:
        _check_tables(db)
    except sqlite3.Error as error:
        db.close()
        raise BadInput(f"{path} is not a FedFleet journal or is damaged: {error}") from None
    return db


def _check_tables(db: sqlite3.Connection) -> None:
    """Refuse a file whose tables are computed: a view, say, can have more rows than any file holds."""
    stored = dict(db.execute("SELECT name, rootpage FROM sqlite_master WHERE type = 'table'"))
    for table in _TABLES:
        if not stored.get(table):
            raise sqlite3.DatabaseError(f"it has no table {table}")
        if any(hidden for (hidden,) in db.execute("SELECT hidden FROM pragma_table_xinfo(?)", (table,))):
            raise sqlite3.DatabaseError(f"its table {table} has computed columns")


@contextmanager
def reader(path: Path, mode: str = "rw") -> Iterator[sqlite3.Connection]:
    """A journal to read from, also while a run is writing it."""
    # A reader that may write tidies the WAL files away behind it; on read-only ground nothing can change under us.
    db = open_file(path, mode if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK) else "ro&immutable=1")
    try:
        yield db
    except (sqlite3.Error, UnicodeError) as error:
        raise BadInput(f"{path} is damaged: {error}") from None
    finally:
        db.close()


def merge_wal(db: sqlite3.Connection) -> None:
    """Fold what was written beside the file into it. Readers may be in the way for a moment; from one who stays it is left so."""
    with suppress(sqlite3.Error):
        db.execute("PRAGMA busy_timeout = 0")
    for _ in range(_TRIES):
        with suppress(sqlite3.Error):
            db.execute("PRAGMA journal_mode = DELETE")
            return
        time.sleep(_PAUSE_SECONDS)
