"""The controller of processes: stops those that have used their processor budget, and those whose device is offline.

One process for all devices. With control groups it only freezes and thaws; without them it keeps the shares as well.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from fedfleet.network.pool.cpu_budget import CpuBudget
from fedfleet.network.pool.processes import (
    cpu_clock,
    die_with_parent,
    leave_group,
    parent_of_start,
    raise_file_limit,
    raise_priority,
)

TICK = 0.004  # seconds between two looks while somebody has a budget


@dataclass(slots=True)
class ControlledProcess:
    """One process: by its handle, since its number may be another's by the time of a signal."""

    pid: int
    handle: int
    budget: CpuBudget | None = None
    frozen: bool = False
    running: bool = True


@dataclass(slots=True)
class Controller:
    """All processes by device, and how they are signalled and measured."""

    send: Callable[[int, int], None] = signal.pidfd_send_signal
    used: Callable[[int], float] = lambda pid: time.clock_gettime(cpu_clock(pid))
    processes: dict[int, ControlledProcess] = field(default_factory=dict[int, ControlledProcess])

    @property
    def ticking(self) -> bool:
        """Whether a budget has to be watched."""
        return any(process.budget is not None for process in self.processes.values())

    def command(self, message: dict[str, Any], now: float) -> None:
        """A line of the pool: a process that starts or ends, a share that changes, a device that freezes or thaws."""
        device = message["device"]
        if "pid" in message:
            self.forget(device)
            with suppress(OSError):  # it has ended already
                handle = os.pidfd_open(message["pid"])
                self.processes[device] = ControlledProcess(message["pid"], handle)
        process = self.processes.get(device)
        if process is None:
            return
        if message.get("ended"):
            self.forget(device)
            return
        if "share" in message:
            share = message["share"]
            process.budget = None if share is None else self._budget(process, share, now)
        if "frozen" in message:
            process.frozen = message["frozen"]
        self.apply(device, now)

    def _budget(self, process: ControlledProcess, share: float, now: float) -> CpuBudget | None:
        try:
            return CpuBudget(share, now, self.used(process.pid))
        except OSError:
            return None

    def tick(self, now: float) -> None:
        """Look at all processes."""
        for device in list(self.processes):
            self.apply(device, now)

    def apply(self, device: int, now: float) -> None:
        """Let one process run or stop it, as its budget and its device say."""
        process = self.processes[device]
        try:
            budget = process.budget
            run = (budget is None or budget.may_run(now, self.used(process.pid))) and not process.frozen
            if run != process.running:
                self.send(process.handle, signal.SIGCONT if run else signal.SIGSTOP)
                process.running = run
        except OSError:
            self.forget(device)

    def forget(self, device: int) -> None:
        """A process has ended."""
        process = self.processes.pop(device, None)
        if process is not None:
            os.close(process.handle)


def main() -> None:
    """Be the controller of a pool: commands come as lines of JSON, until there are no more."""
    leave_group()
    die_with_parent(parent_of_start())
    raise_priority()
    raise_file_limit()
    controller, rest = Controller(), b""
    while True:
        ready, _, _ = select.select([0], [], [], TICK if controller.ticking else None)
        now = time.monotonic()
        if ready:
            data = os.read(0, 1 << 16)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                controller.command(json.loads(line), now)
        controller.tick(now)


if __name__ == "__main__":
    main()
