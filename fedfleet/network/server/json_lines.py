"""Small facts that must outlive a kill beside the journal: a file with a line of JSON for each."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from fedfleet.core.errors import RunFailed


def read_lines(path: Path) -> list[Any]:
    """What the file says, in order; nothing if there is none. A line that was torn by a kill is passed over."""
    lines: list[Any] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else ():
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    return lines


def add_line(path: Path, value: Any) -> None:
    """Add a line, after the end of one that was torn; it is on the disk when this returns."""
    try:
        new = not path.exists()
        with path.open("ab+") as file:
            size = file.seek(0, os.SEEK_END)
            torn = size > 0 and os.pread(file.fileno(), 1, size - 1) != b"\n"
            file.write((b"\n" if torn else b"") + json.dumps(value).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if new:
            handle = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
    except OSError as error:
        raise RunFailed(f"{path} cannot be written ({error}); free some space, then resume") from error
