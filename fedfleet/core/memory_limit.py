"""How much memory this machine has, and refusing what would take too much of it before it is taken."""

from __future__ import annotations

import os
import resource
from functools import cache
from pathlib import Path

from fedfleet.core.errors import BadInput

SHARE = 0.5  # of the machine's memory, for any one thing that a spec asks for
_GROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@cache
def machine_bytes() -> int:
    """The memory that this process can hope for: the machine's, or its container's or its own limit where that is less."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _GROUPS:
        try:
            limits.append(int(Path(path).read_text(encoding="utf-8")))
        except (OSError, ValueError):  # no such group, or the word max
            continue
    own = resource.getrlimit(resource.RLIMIT_AS)[0]
    return min(limits if own == resource.RLIM_INFINITY else [*limits, own])


def check_memory(nbytes: float, what: str, cure: str) -> None:
    """Refuse what would take more than half of this machine's memory.

    >>> check_memory(1000, "a fleet of 10 clients", "ask for fewer")
    """
    if nbytes > SHARE * machine_bytes():
        raise BadInput(
            f"{what} would take about {nbytes / 1e9:,.0f} GB of memory, more than half of the {machine_bytes() / 1e9:,.0f} GB "
            f"here; {cure}"
        )
