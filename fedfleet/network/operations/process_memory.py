"""Memory of a server's processes: how much they take, and how often they look for garbage."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_THRESHOLDS = 50_000, 20, 50  # objects more than before, then how many looks among the newest to one among older ones


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """Memory of one process in bytes; `proportional` divides shared pages by their sharers, None where nobody says it."""

    resident: int
    proportional: int | None = None


def memory_of(pid: int) -> ProcessMemory | None:
    """The memory of a process; None if it is gone, or the system does not tell. Slow for large processes: not in a loop."""
    try:
        kilobytes = _kilobytes((_PROC / str(pid) / "smaps_rollup").read_text(encoding="utf-8"))
        return ProcessMemory(kilobytes["Rss"] * 1024, kilobytes["Pss"] * 1024)
    except (OSError, KeyError):
        pass
    try:  # a process of another user, or an old kernel
        return ProcessMemory(_kilobytes((_PROC / str(pid) / "status").read_text(encoding="utf-8"))["VmRSS"] * 1024)
    except (OSError, KeyError):
        return None


def memory_of_all(pids: Mapping[str, int]) -> dict[str, ProcessMemory]:
    """The memory of those named processes that are there."""
    result = {name: memory_of(pid) for name, pid in pids.items()}
    return {name: memory for name, memory in result.items() if memory is not None}


def _kilobytes(text: str) -> dict[str, int]:
    """The lines `Name:   123 kB` of a file of the system."""
    lines = (line.split() for line in text.splitlines())
    return {words[0].rstrip(":"): int(words[1]) for words in lines if len(words) == 3 and words[2] == "kB"}


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of glibc's mallopt
_KEPT_BYTES = (1 << 31) - 1  # of freed memory that a process keeps: all, until `return_freed_memory`
_MAX_MMAP_THRESHOLD = 32 << 20  # glibc takes no larger one


def keep_freed_memory() -> bool:
    """Let this process use freed memory again before it asks the system for more; False where its C library has no such setting.

    A frontend receives each report into fresh memory otherwise: the system clears its pages, and takes them back a moment later.
    Call it before other threads have memory of their own.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        return False
    settings = ((_M_TRIM_THRESHOLD, _KEPT_BYTES), (_M_MMAP_THRESHOLD, _MAX_MMAP_THRESHOLD), (_M_ARENA_MAX, 1))
    taken = [libc.mallopt(name, value) for name, value in settings]
    return all(taken)


def return_freed_memory() -> None:
    """Give freed memory back to the system, where the C library can."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


@contextmanager
def infrequent_gc() -> Iterator[None]:
    """Look for cycles of garbage every 50,000 objects, not every 700, and never among those that are there already.

    Calls that are open are thousands of objects, none of them garbage; to look through them again and again takes a tenth of a
    frontend's time, and delays every answer.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
