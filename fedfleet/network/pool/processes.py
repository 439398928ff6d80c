"""Processes that must not outlive their pool: they die with their parent, and a record lets the next pool end what is left.

A process is known by its number and the moment at which it began, and belongs to a pool if its environment carries the pool's
name: a number alone may be that of another process by now.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import secrets
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fedfleet.network.pool.cgroups import remove_groups
from fedfleet.store.lock import process_mark

MARK = "FEDFLEET_POOL"  # in the environment of all processes of a pool
_PR_SET_PDEATHSIG = 1
_PROC = Path("/proc")
_WAIT, _PAUSE = 10.0, 0.02


def die_with_parent(parent: int) -> None:
    """Let the system kill this process when its parent ends, however that ends; exit at once if it has ended already."""
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "prctl"):
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def leave_group() -> None:
    """Begin a process group, which Ctrl-C at the terminal does not reach."""
    with suppress(OSError):
        os.setpgid(0, 0)


def raise_priority() -> None:
    """Let this process run before others that are ready, where that is permitted: its timers are what others are measured by."""
    with suppress(OSError):
        os.nice(-10)


def raise_file_limit() -> None:
    """Let this process hold as many files as the system permits: each device takes some of its pool's."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def parent_of_start() -> int:
    """The pool that started this process, as its environment says."""
    return int(os.environ[MARK].partition("-")[0])


@dataclass(frozen=True, slots=True)
class PoolRecord:
    """What a pool leaves for the next one: its own process, its name, and the cgroups that it made."""

    name: str
    pid: int
    mark: str
    groups: tuple[str, ...] = ()


def records_folder() -> Path:
    """Where the pools of this user are recorded."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "fedfleet" / "pools"


def pool_name() -> str:
    """A name for a pool of this process, unlike all others."""
    return f"{os.getpid()}-{secrets.token_hex(8)}"


@contextmanager
def recorded_pool(name: str, groups: Sequence[str] = ()) -> Iterator[None]:
    """Make this process a pool, whose name all processes carry that it starts. What is left of them at the end is ended."""
    from fedfleet.store.files import write_atomically  # it loads numpy, which the relay and the controller do not need

    record = PoolRecord(name, os.getpid(), process_mark(os.getpid()) or "", tuple(groups))
    path = records_folder() / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    content = {"name": record.name, "pid": record.pid, "mark": record.mark, "groups": list(record.groups)}
    write_atomically(path, (json.dumps(content) + "\n").encode())
    os.environ[MARK] = name
    try:
        yield
    finally:
        os.environ.pop(MARK, None)
        end_processes(name)
        remove_groups(record.groups)
        path.unlink(missing_ok=True)


def end_leftovers() -> int:
    """End what pools left behind that were killed; how many processes that were."""
    ended = 0
    for path in sorted(records_folder().glob("*.json")):
        try:
            table = json.loads(path.read_text(encoding="utf-8"))
            groups = tuple(str(group) for group in table.get("groups", ()))
            record = PoolRecord(str(table["name"]), int(table["pid"]), str(table["mark"]), groups)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
        if process_mark(record.pid) == record.mark:
            continue
        ended += end_processes(record.name)
        remove_groups(record.groups)
        path.unlink(missing_ok=True)
    return ended


def end_processes(name: str) -> int:
    """Kill all processes of a pool but this one, and wait until they are gone; how many there were."""
    began, ended = time.monotonic(), set[int]()
    while (members := pool_processes(name)) and time.monotonic() < began + _WAIT:
        for pid in members:
            ended.add(pid)
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for pid in members:  # of those that are children of this process
            with suppress(OSError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(_PAUSE)
    return len(ended)


def pool_processes(name: str) -> list[int]:
    """The processes of a pool that live, but for this one. Only processes of the same user can be read."""
    wanted, found = f"{MARK}={name}".encode(), list[int]()
    for folder in _PROC.iterdir() if _PROC.is_dir() else ():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        with suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0") and _lives(folder):
                found.append(int(folder.name))
    return found


def _lives(folder: Path) -> bool:
    return (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0] not in ("Z", "X")


def cpu_clock(pid: int) -> int:
    """The clock of the processor time that a process has used in all its threads, for `time.clock_gettime`."""
    return (~pid << 3) | 2


def main() -> None:
    """Become a command that dies with the pool that starts it: `python -m fedfleet.network.pool.processes COMMAND..`."""
    leave_group()
    die_with_parent(parent_of_start())
    os.execv(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
