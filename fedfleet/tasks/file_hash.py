"""The content hash of a file or a folder that a person names: what a spec pins, so that data cannot change unseen."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from fedfleet.core.errors import BadInput

_MOST_FILES = 1_000_000


def path_hash(path: Path) -> str:
    """The SHA-256 of a file's bytes; of a folder, of the names and hashes of all files in it. Hidden files do not count."""
    try:
        if not path.is_dir():
            return _file_hash(str(path), *_stamp(path))
        files = sorted(
            p for p in path.rglob("*") if p.is_file() and not any(part.startswith(".") for part in p.relative_to(path).parts)
        )
        if len(files) > _MOST_FILES:
            raise BadInput(f"{path} holds {len(files):,} files, more than {_MOST_FILES:,}; put the samples into fewer files")
        lines = [f"{p.relative_to(path).as_posix()}\0{_file_hash(str(p), *_stamp(p))}\n" for p in files]
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error}") from None


def _stamp(path: Path) -> tuple[int, int, int]:
    """What changes when a file is written: so a file that stays is read once."""
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


@lru_cache(maxsize=4096)
def _file_hash(path: str, *stamp: int) -> str:
    del stamp
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
