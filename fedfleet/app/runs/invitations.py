"""Tokens and devices of a served run, for the command line: made, listed, revoked, also while its server runs."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from fedfleet.core.errors import BadInput, nearest_file
from fedfleet.network.security.enrolment_store import all_enrolments, open_store, revoke_client
from fedfleet.network.security.tokens import TokenRequest, all_tokens, make_token, revoke_token

_HOUR = 3600.0


def invite(folder: Path, uses: int, hours: float, client: int | None, note: str) -> dict[str, Any]:
    """A new token and what is known of it; nobody will be able to read it again."""
    _check_client(folder, client)
    with _store(folder) as db:
        text, token = make_token(db, TokenRequest(uses, hours * _HOUR, client, note), time.time())
    return {"token": text, **asdict(token)}


def list_tokens(folder: Path) -> dict[str, Any]:
    """All tokens and all enrolments."""
    with _store(folder) as db:
        return {"tokens": [asdict(t) for t in all_tokens(db)], "devices": [asdict(e) for e in all_enrolments(db)]}


def end_token(folder: Path, token: str) -> dict[str, Any]:
    """End a token."""
    with _store(folder) as db:
        return asdict(revoke_token(db, token, time.time()))


def end_enrolment(folder: Path, client: int) -> dict[str, Any]:
    """End the enrolment of a client's device."""
    with _store(folder) as db:
        revoke_client(db, client, time.time())
    return {"client": client, "revoked": True}


def check_one_request(making: Mapping[str, Any], others: Mapping[str, Any]) -> None:
    """Refuse words that ask for two things at once."""
    requests = [name for name, value in others.items() if value is not None]
    conflicts = requests[1:] or [name for name, value in making.items() if value is not None]
    if requests and conflicts:
        raise BadInput(f"{requests[0]} and {conflicts[0]} cannot be used together; give one at a time")


@contextmanager
def _store(folder: Path) -> Iterator[Connection]:
    near = "" if folder.exists() else nearest_file(folder)
    if near:
        raise BadInput(f"there is no run folder {folder}{near}")
    if not (folder / "wire").is_dir():
        raise BadInput(f"{folder} is not the folder of a served run; fedfleet serve prints the folder when it starts")
    with closing(open_store(folder / "wire" / "devices.db")) as db:
        yield db


def _check_client(folder: Path, client: int | None) -> None:
    """Refuse a client that the run has not, as far as its spec says how many it has."""
    if client is None:
        return
    try:
        clients = tomllib.loads((folder / "spec.toml").read_text(encoding="utf-8"))["world"]["clients"]
    except (OSError, ValueError, LookupError, TypeError):
        return
    if isinstance(clients, int) and client >= clients:
        raise BadInput(f"--client {client}: the run has clients 0 to {clients - 1}")
