"""Blobs: bytes that many devices get, written once by the processor and sent from shared memory by every transmitter."""

from __future__ import annotations

import hashlib
import mmap
import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fedfleet.core.errors import RunFailed
from fedfleet.runtime.wire.framing import crc32c

_SHARED = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes by their content: what they are called, where they lie, how many they are, their CRC-32C."""

    name: str
    path: str
    nbytes: int
    crc32c: int


def shared_folder() -> Path:
    """A new folder of this server's processes, in shared memory where there is any; remove it at the end."""
    if os.access(_SHARED, os.W_OK):
        made = _SHARED / f"fedfleet-{os.getpid()}-{secrets.token_hex(4)}"
        made.mkdir(mode=0o700)
        return made
    return Path(tempfile.mkdtemp(prefix="fedfleet-"))


def remove_folder(folder: Path) -> None:
    """Give the memory back."""
    shutil.rmtree(folder, ignore_errors=True)


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
