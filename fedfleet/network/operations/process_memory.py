"""How much memory the processes of a server take, as the system says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Resident:
    """Memory of one process in bytes; `proportional` divides shared pages by their sharers, None where nobody says it."""

    resident: int
    proportional: int | None = None


def resident(pid: int) -> Resident | None:
    """The memory of a process; None if it is gone, or the system does not tell. Slow for large processes: not in a loop."""
    try:
        said = _kilobytes((_PROC / str(pid) / "smaps_rollup").read_text(encoding="utf-8"))
        return Resident(said["Rss"] * 1024, said["Pss"] * 1024)
    except (OSError, KeyError):
        pass
    try:  # a process of another user, or an old kernel
        return Resident(_kilobytes((_PROC / str(pid) / "status").read_text(encoding="utf-8"))["VmRSS"] * 1024)
    except (OSError, KeyError):
        return None


def resident_all(pids: Mapping[str, int]) -> dict[str, Resident]:
    """The memory of those named processes that are there."""
    found = {name: resident(pid) for name, pid in pids.items()}
    return {name: memory for name, memory in found.items() if memory is not None}


def _kilobytes(text: str) -> dict[str, int]:
    """The lines `Name:   123 kB` of a file of the system."""
    lines = (line.split() for line in text.splitlines())
    return {words[0].rstrip(":"): int(words[1]) for words in lines if len(words) == 3 and words[2] == "kB"}
