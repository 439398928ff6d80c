"""What a stress run measures: latencies of calls, memory without counting shared pages twice, processor time.

Latencies are counts in logarithmic bins: quantiles of any number of calls in a fixed room, which add up over processes. Memory is
the proportional set size (PSS): a page that three processes share counts a third in each. It is read from /proc, so that a stress
run needs Linux.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from fedfleet.core.errors import BadInput

_LEAST = 1e-5  # seconds; a bin is 4 % wide
_PER_E = 25


class Latency:
    """Counts by bin; a class, since it is added to with every call.

    >>> seen = Latency()
    >>> for _ in range(99): seen.add(0.010)
    >>> seen.add(1.0)
    >>> round(seen.quantile(0.5), 3), round(seen.quantile(1.0), 1)
    (0.01, 1.0)
    """

    def __init__(self, bins: dict[int, int] | None = None) -> None:
        self.bins: dict[int, int] = {} if bins is None else bins

    def add(self, seconds: float) -> None:
        """One call took so long."""
        place = int(math.log(max(seconds, _LEAST) / _LEAST) * _PER_E)
        self.bins[place] = self.bins.get(place, 0) + 1

    def count(self) -> int:
        """How many calls there were."""
        return sum(self.bins.values())

    def quantile(self, share: float) -> float:
        """The seconds within which this share of the calls was answered; 0 if there was none."""
        remaining = share * self.count()
        for place in sorted(self.bins):
            remaining -= self.bins[place]
            if remaining <= 1e-9:
                return _LEAST * math.exp((place + 0.5) / _PER_E)
        return 0.0

    def to_json(self) -> dict[str, int]:
        """As JSON: bins by their numbers."""
        return {str(place): n for place, n in sorted(self.bins.items())}


def merge(many: Iterable[dict[str, int]]) -> Latency:
    """The latencies of several processes as one."""
    total = Latency()
    for bins in many:
        for place, n in bins.items():
            total.bins[int(place)] = total.bins.get(int(place), 0) + n
    return total


_PROC = Path("/proc")
_MB = 1e6
_TICKS = os.sysconf("SC_CLK_TCK")


def pss_bytes(pid: int) -> int:
    """The proportional set size of a process; 0 of one that is gone."""
    try:
        for line in (_PROC / str(pid) / "smaps_rollup").read_text(encoding="utf-8").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        if not (_PROC / "self/smaps_rollup").exists():
            raise BadInput("this system has no /proc/PID/smaps_rollup, from which memory is read; use Linux") from None
    return 0


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used, in user and system mode; 0 of one that is gone."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def process_tree(pid: int) -> list[int]:
    """A process and all that descend from it."""
    pids, to_visit = [], [pid]
    while to_visit:
        pids.append(to_visit.pop())
        to_visit += _children(pids[-1])
    return pids


def _children(pid: int) -> list[int]:
    try:
        tasks = [*(_PROC / str(pid) / "task").iterdir()]
        return [int(word) for task in tasks for word in (task / "children").read_text(encoding="utf-8").split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


@dataclass(slots=True)
class Usage:
    """What a watch has seen so far: the first and the largest sum of memory, and processor time by process since the first look."""

    base_mb: float = 0.0
    peak_mb: float = 0.0
    samples: int = 0
    cpu: dict[int, float] = field(default_factory=dict[int, float])
    before: dict[int, float] = field(default_factory=dict[int, float])

    @property
    def cpu_seconds(self) -> float:
        """Of all processes that were ever seen, since they were watched."""
        return sum(self.cpu.values()) - sum(self.before.values())

    @property
    def first_cpu_seconds(self) -> float:
        """Of the process from which the others descend."""
        return next((used - self.before.get(pid, 0.0) for pid, used in self.cpu.items()), 0.0)

    def sample(self, pids: Iterable[int]) -> None:
        """Take one sample of all these processes."""
        total = 0
        for pid in pids:
            total += pss_bytes(pid)
            self.cpu[pid] = max(self.cpu.get(pid, 0.0), cpu_seconds(pid))
        if not self.samples:
            self.base_mb, self.before = total / _MB, dict(self.cpu)
        self.samples += 1
        self.peak_mb = max(self.peak_mb, total / _MB)


class UsageSampler:
    """Samples the processes below `pid` from a thread until it is closed; a class, since it holds a thread."""

    def __init__(self, pid: int, *, every: float = 0.25) -> None:
        self.usage, self._pid, self._every = Usage(), pid, every
        self._done = threading.Event()
        self.usage.sample(process_tree(pid))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._done.wait(self._every):
            self.usage.sample(process_tree(self._pid))

    def close(self) -> Usage:
        """Stop sampling, and say what was seen."""
        self._done.set()
        self._thread.join()
        return self.usage

    def __enter__(self) -> UsageSampler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
