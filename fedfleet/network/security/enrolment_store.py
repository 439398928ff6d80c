"""The store of a run's tokens and enrolments: `wire/devices.db`, a SQLite file in WAL mode that is written through to the disk.

The server and the command line may have it open at the same time; who writes waits for the other.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedfleet.core.errors import BadInput, RunFailed

_APPLICATION = 0x46464456  # "FFDV"
_FORMAT = 1
_BUSY_SECONDS = 10.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS tokens (
    hash BLOB PRIMARY KEY, id TEXT NOT NULL UNIQUE, uses INTEGER NOT NULL, used INTEGER NOT NULL DEFAULT 0, made REAL NOT NULL,
    expires REAL, client INTEGER, note TEXT NOT NULL, revoked REAL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS enrolments (
    client INTEGER NOT NULL, generation INTEGER NOT NULL, token TEXT, attempt BLOB, samples INTEGER NOT NULL,
    test_samples INTEGER NOT NULL, memory_bytes INTEGER NOT NULL, data TEXT NOT NULL, peer TEXT NOT NULL, enrolled REAL NOT NULL,
    evidence BLOB, revoked REAL, PRIMARY KEY (client, generation)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS attempts ON enrolments (attempt) WHERE attempt IS NOT NULL;
CREATE INDEX IF NOT EXISTS revocations ON enrolments (client, generation) WHERE revoked IS NOT NULL;
"""


@dataclass(frozen=True, slots=True)
class Enrolment:
    """A device that was given a place: by which token, what it declared, from where and when, and whether it was put out since."""

    client: int
    generation: int
    token: str | None
    samples: int
    test_samples: int
    data: str
    peer: str
    enrolled: float
    revoked: float | None


def open_store(path: Path) -> sqlite3.Connection:
    """Open the store of tokens and enrolments, or make it; only its owner can read it."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        db = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        _prepare(db, path)
    except OSError as error:
        raise RunFailed(f"{path}, the store of enrolled devices, cannot be opened ({error.strerror})") from None
    except sqlite3.Error as error:
        raise RunFailed(f"{path} is not a usable store of devices ({error})") from None
    return db


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    (application,), (version,) = (db.execute("PRAGMA application_id").fetchone(), db.execute("PRAGMA user_version").fetchone())
    if (application, version) == (0, 0):
        with transaction(db, path):
            for statement in _SCHEMA.split(";\n"):
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {_APPLICATION}")
            db.execute(f"PRAGMA user_version = {_FORMAT}")
    elif (application, version) != (_APPLICATION, _FORMAT):
        raise BadInput(f"{path} is not a store of devices of this version of FedFleet")


@contextmanager
def transaction(db: sqlite3.Connection, path: Path | str = "the store of devices") -> Iterator[None]:
    """What is done inside is on the disk when this ends, or nothing of it is."""
    try:
        db.execute("BEGIN IMMEDIATE")  # waits for other writers; what is read inside stays true until the end
        try:
            yield
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
    except sqlite3.Error as error:
        raise RunFailed(f"{path} cannot be written ({error}); check disk space and permissions, then try again") from None


def all_enrolments(db: sqlite3.Connection) -> list[Enrolment]:
    """All enrolments, by client and generation."""
    columns = "client, generation, token, samples, test_samples, data, peer, enrolled, revoked"
    return [Enrolment(*row) for row in db.execute(f"SELECT {columns} FROM enrolments ORDER BY client, generation")]


def end_enrolment(db: sqlite3.Connection, client: int, now: float) -> bool:
    """Put the device of a client out, inside a transaction; False: there is none."""
    statement = "UPDATE enrolments SET revoked = ? WHERE client = ? AND revoked IS NULL"
    return db.execute(statement, (now, client)).rowcount > 0


def revoke_client(db: sqlite3.Connection, client: int, now: float) -> None:
    """Put the device of a client out, also while a server runs on the store."""
    with transaction(db):
        if not end_enrolment(db, client, now):
            raise BadInput(f"no device is enrolled as client {client}; fedfleet token RUN --list shows the enrolled devices")
