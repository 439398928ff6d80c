"""Code that a person trusts on this machine, by the hash of its source: kept once, run by all their commands.

A spec, a run folder or a server may name code, and nothing of it runs before the person has trusted just this source: by naming
the file on a command line (`--model model.py:Net`), or by its hash (`--trust-code`). What is trusted is copied, so that a run goes
on with the code with which it began, whatever becomes of the file. To trust code no longer, delete its copy.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path

from fedfleet.core.errors import BadInput

_HASH = re.compile(r"[0-9a-f]{64}")
MOST_BYTES = 1 << 20  # of one source file


def state_folder() -> Path:
    """Where FedFleet keeps what belongs to a person and not to a run."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "fedfleet"


def source_hash(source: str) -> str:
    """The hash by which code is trusted."""
    return hashlib.sha256(source.encode()).hexdigest()


def trusted_file(digest: str) -> Path:
    """Where the copy of trusted code is, or would be."""
    if not _HASH.fullmatch(digest):  # it is about to be a file's name
        raise BadInput(f"{digest!r} is not the hash of code; it has 64 digits of 0-9 and a-f")
    return state_folder() / "code" / f"{digest}.py"


def trusted_source(digest: str) -> str | None:
    """The source of trusted code; None if the person has not trusted it, or if its copy has changed."""
    try:
        source = trusted_file(digest).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return source if source_hash(source) == digest else None


def forget(digest: str) -> None:
    """Trust this code no longer."""
    trusted_file(digest).unlink(missing_ok=True)


def trust(source: str) -> str:
    """Trust this source on this machine from now on; its hash."""
    digest = source_hash(source)
    if trusted_source(digest) is not None:
        return digest
    path = trusted_file(digest)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, draft = tempfile.mkstemp(dir=path.parent, suffix=".part")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(source)
        os.replace(draft, path)
    except OSError as error:
        raise BadInput(
            f"cannot keep trusted code in {path.parent}: {error}; set XDG_STATE_HOME to a folder that you can write"
        ) from None
    return digest


def keep_received(source: str) -> Path:
    """Keep code that came from elsewhere for a person to read, apart from what is trusted; where it is."""
    path = state_folder() / "received" / f"{source_hash(source)}.py"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(source, encoding="utf-8")
    except OSError as error:
        raise BadInput(
            f"cannot keep the received code in {path.parent}: {error}; set XDG_STATE_HOME to a folder that you can write"
        ) from None
    return path
