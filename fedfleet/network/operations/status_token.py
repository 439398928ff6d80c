"""The status token of a server, where `fedfleet status` of the same user on the same machine finds it by the server's address."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from fedfleet.network.security.secrets import RunKey, status_token


def token_file(address: str) -> Path:
    """The file for a server at this address; only its user can read it."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "fedfleet" / "servers" / f"{re.sub(r'[^A-Za-z0-9.]+', '-', address).strip('-')}.token"


def publish_token(address: str, key: RunKey) -> Path | None:
    """Write the token of a server that listens; None if that cannot be, then an operator gives it by hand."""
    path = token_file(address)
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(f"{status_token(key)}\n")
        draft.replace(path)
    except OSError:
        return None
    return path


def withdraw_token(path: Path | None) -> None:
    """The server stops."""
    if path is not None:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def published_token(address: str) -> str:
    """The token of a server of this user at this address; empty: there is none."""
    try:
        return token_file(address).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
