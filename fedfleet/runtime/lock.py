"""One writer: a lock on the folder of a run, held by the operating system for as long as its process lives."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedfleet.core.errors import BadInput

LOCK = "lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder; whoever else tries is refused with the name and the process id of the holder.

    A kill or a reboot frees the lock, since the operating system holds it: a file that is left behind locks nothing.
    """
    path = folder / LOCK
    handle = _hold(folder, path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def _hold(folder: Path, path: Path) -> int:
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as wrong:
            raise BadInput(
                f"the folder {folder} cannot be written ({wrong.strerror}); choose another with --out"
            ) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = _holder(handle)
            os.close(handle)
            raise BadInput(
                f"{folder} is in use by {holder}; wait until it has ended, or choose another folder with --out"
            ) from None
        if _is_at(handle, path):
            break
        os.close(handle)  # whoever held it before has removed the file since we opened it
    try:
        about = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "command": Path(sys.argv[0]).name,
            "since": time.time(),
        }
        os.ftruncate(handle, 0)
        os.write(handle, (json.dumps(about) + "\n").encode())
    except OSError:
        pass  # on a full disk the lock holds all the same; only its holder stays unnamed
    return handle


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _holder(handle: int) -> str:
    try:
        about = json.loads(os.pread(handle, 4096, 0))
        return f"{about['command']} (process {about['pid']} on {about['host']})"
    except (ValueError, KeyError, TypeError):
        return "another process"
