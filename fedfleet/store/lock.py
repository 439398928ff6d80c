"""One writer: a lock on the folder of a run, held by the operating system for as long as its process lives."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fedfleet.core.errors import BadInput
from fedfleet.core.json_text import parse_json

LOCK = "lock"
_ATTEMPTS, _PAUSE_SECONDS = 20, 0.05
_CLOCKS_DIFFER_SECONDS = 5.0


@contextmanager
def hold_lock(folder: Path) -> Iterator[None]:
    """Hold the folder; a second process is refused with the name and the process id of the holder.

    A kill or a reboot frees the lock, since the operating system holds it: a file that is left behind locks nothing.
    """
    path = folder / LOCK
    handle = _take_lock(folder, path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def _take_lock(folder: Path, path: Path) -> int:
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise BadInput(f"the folder {folder} cannot be written ({error.strerror}); choose another with --out") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(handle)
            os.close(handle)
            raise BadInput(
                f"{folder} is in use by {holder}; wait until it has ended, or choose another folder with --out"
            ) from None
        except OSError as error:  # of a disk that knows no locks
            os.close(handle)
            raise BadInput(
                f"the folder {folder} cannot be locked ({error.strerror}); choose one on another disk with --out"
            ) from None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), path.stat()):
                break
        os.close(handle)  # the holder before has removed the file since we opened it
    about = {"pid": os.getpid(), "host": socket.gethostname(), "command": Path(sys.argv[0]).name, "since": time.time()}
    with suppress(OSError):  # on a full disk the lock holds all the same; only its holder stays unnamed
        os.ftruncate(handle, 0)
        os.write(handle, (json.dumps({**about, "born": process_mark(os.getpid())}) + "\n").encode())
    return handle


def _holder(handle: int) -> str:
    """Who holds the lock. Whoever has just taken it may not have written its name yet: an old one is that of a dead process."""
    for _ in range(_ATTEMPTS):
        with suppress(ValueError, KeyError, TypeError):
            about = parse_json(os.pread(handle, 4096, 0))
            if about["host"] != socket.gethostname() or Path(f"/proc/{int(about['pid'])}").exists():
                return f"{about['command']} (process {about['pid']} on {about['host']})"
        time.sleep(_PAUSE_SECONDS)
    return "another process"


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds the folder of a run."""

    pid: int
    command: str
    since: float


def holder_of(folder: Path) -> Holder | None:
    """Who holds a folder on this machine, without trying the lock: trying it would block a run that starts.

    The process must live, and must have been there when the lock was taken: another may bear its number after a reboot.
    """
    try:
        about = parse_json((folder / LOCK).read_text(encoding="utf-8"))
        holder = Holder(int(about["pid"]), str(about["command"]), float(about["since"]))
        if about["host"] != socket.gethostname():
            return None
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    start, mark = _start_time(holder.pid), about.get("born")
    if start is None:
        return None
    same = start <= holder.since + _CLOCKS_DIFFER_SECONDS if mark is None else mark == process_mark(holder.pid)
    return holder if same else None


def _start_time(pid: int) -> float | None:
    """When a process began, as the clock of the wall says; None: there is none. Where that cannot be known, long ago."""
    try:
        fields = _stat_fields(pid)
        uptime = float(Path("/proc/uptime").read_text(encoding="utf-8").split()[0])
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return None
        with suppress(OSError):
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return None
        return 0.0
    except (OSError, ValueError, IndexError):
        return 0.0
    if fields[0] in ("Z", "X"):  # it has ended, and its parent has not collected it yet
        return None
    return time.time() - uptime + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def process_mark(pid: int) -> str | None:
    """By what a process is told from a later one of its number, also where the clock of the wall was set; None: not known here."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot} {_stat_fields(pid)[19]}"
    except (OSError, ValueError, IndexError):
        return None


def _stat_fields(pid: int) -> list[str]:
    """What the system says of a process, from its state on."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
