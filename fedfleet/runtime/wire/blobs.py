"""Blobs: bytes that many devices get, written once by the processor and sent from shared memory by every transmitter."""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import secrets
import shutil
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fedfleet.core.errors import RunFailed
from fedfleet.runtime.wire.framing import crc32c

_SHARED = Path("/dev/shm")
_PREFIX = "fedfleet-"
_YOUNG_SECONDS = 60.0
_held: dict[Path, int] = {}  # the locks of folders that this process made


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes by their content: what they are called, where they lie, how many they are, their CRC-32C."""

    name: str
    path: str
    nbytes: int
    crc32c: int


def shared_folder(within: Path = _SHARED) -> Path:
    """A new folder of this server's processes, in shared memory where there is any; remove it at the end.

    It is locked as long as this process lives: those of servers that were killed are not, and are removed here.
    """
    within = within if os.access(within, os.W_OK) else Path(tempfile.gettempdir())
    for old in within.glob(f"{_PREFIX}*"):
        _remove_abandoned(old)
    made = within / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
    made.mkdir(mode=0o700)
    _held[made] = os.open(made, os.O_RDONLY)
    fcntl.flock(_held[made], fcntl.LOCK_EX | fcntl.LOCK_NB)
    return made


def _remove_abandoned(folder: Path) -> None:
    with suppress(OSError):  # somebody else's, or just gone
        if time.time() - folder.stat().st_mtime < _YOUNG_SECONDS:
            return  # it may be about to be locked
        handle = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(handle)


def remove_folder(folder: Path) -> None:
    """Give the memory back."""
    shutil.rmtree(folder, ignore_errors=True)
    handle = _held.pop(folder, None)
    if handle is not None:
        os.close(handle)


def write_blob(folder: Path, data: bytes) -> Blob:
    """Put bytes where all processes find them; the same bytes are written once."""
    name = hashlib.sha256(data).hexdigest()[:32]
    path = folder / f"{name}.blob"
    if not path.exists():
        try:
            draft = path.with_suffix(".part")
            draft.write_bytes(data)
            draft.replace(path)
        except OSError as wrong:
            raise RunFailed(
                f"a model of {len(data)} bytes does not fit into shared memory at {folder} ({wrong})"
            ) from wrong
    return Blob(name, str(path), len(data), crc32c(data))


def drop_blob(blob: Blob) -> None:
    """Nobody needs it any more; who is still sending it may finish."""
    Path(blob.path).unlink(missing_ok=True)


def mapped(blob: Blob) -> memoryview:
    """The bytes of a blob, without a copy."""
    if not blob.nbytes:
        return memoryview(b"")
    with Path(blob.path).open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), blob.nbytes, access=mmap.ACCESS_READ))
