"""How much memory the processes of a server take, as the system says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


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
