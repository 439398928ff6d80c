"""Tokens invite devices: made by whoever keeps the server, good for some uses and some time, revocable; only their hash is stored.

They live in `wire/devices.db` of a run's folder beside the enrolments (`enrolment`), a SQLite file in WAL mode that is written
through to the disk, so that the command line can make and revoke tokens while a server runs.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.runtime.wire.security.foreign import shown

_APPLICATION = 0x46464456  # "FFDV"
_FORMAT = 1
_PREFIX = "fft_"  # lets scanners for leaked secrets, and people, know one
_TOKEN_BYTES = 24
_ID_LETTERS = 10
_LONGEST_TOKEN = 100
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
_COLUMNS = "id, uses, used, made, expires, client, note, revoked"


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token; not the token itself, which nobody but its bearer has. Times are Unix seconds."""

    id: str
    uses: int
    used: int
    made: float
    expires: float | None
    client: int | None
    note: str
    revoked: float | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What kind of token is wanted: for how many devices, for how long, for which client, and a note on whom it is for."""

    uses: int = 1
    seconds: float | None = None
    client: int | None = None
    note: str = ""


def open_store(path: Path) -> sqlite3.Connection:
    """Open the store of tokens and enrolments, or make it; only its owner can read it."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        db = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        _prepare(db, path)
    except OSError as wrong:
        raise RunFailed(f"{path} cannot be opened ({wrong.strerror}); devices are enrolled in it") from None
    except sqlite3.Error as wrong:
        raise RunFailed(f"{path} is not a store of devices that can be used ({wrong})") from None
    return db


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    (application,), (version,) = (
        db.execute("PRAGMA application_id").fetchone(),
        db.execute("PRAGMA user_version").fetchone(),
    )
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
    except sqlite3.Error as wrong:
        raise RunFailed(
            f"{path} cannot be written ({wrong}); see that there is space on the disk, then try again"
        ) from None


def make_token(db: sqlite3.Connection, wanted: Wanted, now: float) -> tuple[str, Token]:
    """A new token, to be shown once, and what is stored of it."""
    if wanted.uses < 1 or (wanted.seconds is not None and not wanted.seconds > 0):
        raise BadInput("a token is good for at least one use, and for more than no time")
    text = _PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
    expires = None if wanted.seconds is None else now + wanted.seconds
    token = Token(_id(text), wanted.uses, 0, now, expires, wanted.client, shown(wanted.note), None)
    with transaction(db):
        db.execute(
            f"INSERT INTO tokens (hash, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (_hash(text), token.id, token.uses, 0, now, expires, token.client, token.note, None),
        )
    return text, token


def tokens(db: sqlite3.Connection) -> list[Token]:
    """All tokens, the oldest first."""
    return [Token(*row) for row in db.execute(f"SELECT {_COLUMNS} FROM tokens ORDER BY made, id")]


def token_of(db: sqlite3.Connection, text: str) -> Token | None:
    """What is known of this token; None: nobody made it. Found by its hash, so that timing tells nothing of those that exist."""
    if len(text) > _LONGEST_TOKEN:
        return None
    row = db.execute(f"SELECT {_COLUMNS} FROM tokens WHERE hash = ?", (_hash(text),)).fetchone()
    return None if row is None else Token(*row)


def use_token(db: sqlite3.Connection, token: Token) -> None:
    """Count one use; only inside a transaction in which the token was found good."""
    db.execute("UPDATE tokens SET used = used + 1 WHERE id = ?", (token.id,))


def revoke_token(db: sqlite3.Connection, token: str, now: float) -> Token:
    """End a token by its id; devices that it has enrolled stay. Ending it again changes nothing."""
    with transaction(db):
        db.execute("UPDATE tokens SET revoked = coalesce(revoked, ?) WHERE id = ?", (now, token))
        row = db.execute(f"SELECT {_COLUMNS} FROM tokens WHERE id = ?", (token,)).fetchone()
    if row is None:
        raise BadInput(f"there is no token with the id {shown(token, 40)!r}; fedfleet token RUN --list shows them")
    return Token(*row)


def why_not(token: Token | None, now: float) -> str | None:
    """Why a token cannot be used now; None: it can."""
    if token is None:
        return "the token is not one of this run; ask whoever keeps the server for another"
    if token.revoked is not None:
        return "the token was revoked; ask whoever keeps the server for another"
    if token.expires is not None and now >= token.expires:
        return "the token has expired; ask whoever keeps the server for another"
    if token.used >= token.uses:
        return "the token was used up; ask whoever keeps the server for another"
    return None


def _hash(text: str) -> bytes:
    return hashlib.sha256(b"fedfleet token 1\0" + text.encode("utf-8", "surrogatepass")).digest()


def _id(text: str) -> str:
    return _hash(text).hex()[:_ID_LETTERS]
