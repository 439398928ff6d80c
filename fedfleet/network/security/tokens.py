"""Tokens invite devices: made by the operator of the server, valid for some uses and time, revocable; only their hash is stored.

They live in the `enrolment_store` of a run, so that the command line can make and revoke them while a server runs.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
from dataclasses import dataclass

from fedfleet.core.errors import BadInput, printable
from fedfleet.network.security.enrolment_store import transaction

_PREFIX = "fft_"  # lets scanners for leaked secrets, and people, know one
_TOKEN_BYTES = 24
_ID_LETTERS = 10
_LONGEST_TOKEN = 100
_COLUMNS = "id, uses, used, made, expires, client, note, revoked"


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token; not the token itself, which only its bearer has. Times are Unix seconds."""

    id: str
    uses: int
    used: int
    made: float
    expires: float | None
    client: int | None
    note: str
    revoked: float | None


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """What kind of token is wanted: for how many devices, for how long, for which client, and a note on whom it is for."""

    uses: int = 1
    seconds: float | None = None
    client: int | None = None
    note: str = ""


def make_token(db: sqlite3.Connection, request: TokenRequest, now: float) -> tuple[str, Token]:
    """A new token, to be shown once, and what is stored of it."""
    if request.uses < 1 or (request.seconds is not None and not request.seconds > 0):
        raise BadInput("a token needs at least one use, and a lifetime above 0 seconds")
    if request.client is not None and request.uses != 1:
        raise BadInput("a token that names a client is for one device; each further device would replace the one before")
    text = _PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
    expires = None if request.seconds is None else now + request.seconds
    token = Token(_id(text), request.uses, 0, now, expires, request.client, printable(request.note), None)
    with transaction(db):
        db.execute(
            f"INSERT INTO tokens (hash, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (_hash(text), token.id, token.uses, 0, now, expires, token.client, token.note, None),
        )
    return text, token


def all_tokens(db: sqlite3.Connection) -> list[Token]:
    """All tokens, the oldest first."""
    return [Token(*row) for row in db.execute(f"SELECT {_COLUMNS} FROM tokens ORDER BY made, id")]


def token_of(db: sqlite3.Connection, text: str) -> Token | None:
    """What is known of this token; None: unknown. Found by its hash, so that timing tells nothing of those that exist."""
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
        raise BadInput(f"there is no token with the id {printable(token, 40)!r}; fedfleet token RUN --list shows them")
    return Token(*row)


def token_refusal(token: Token | None, now: float) -> str | None:
    """Why a token cannot be used now; None: it can."""
    if token is None:
        return "the token is not one of this run; ask the operator of the server for another"
    if token.revoked is not None:
        return "the token was revoked; ask the operator of the server for another"
    if token.expires is not None and now >= token.expires:
        return "the token has expired; ask the operator of the server for another"
    if token.used >= token.uses:
        return "the token was used up; ask the operator of the server for another"
    return None


def _hash(text: str) -> bytes:
    return hashlib.sha256(b"fedfleet token 1\0" + text.encode("utf-8", "surrogatepass")).digest()


def _id(text: str) -> str:
    return _hash(text).hex()[:_ID_LETTERS]
