"""Strikes: what devices sent that no honest device sends. They outlive a kill, so that nobody begins anew by one.

A faulty report counts against its task: three end it. A damaged or wrongly addressed upload counts against its sender: who has
too many is shut out for a while. Each strike is a line in a file: that of a task is on the disk before its device is told of it;
that of a sender follows its answer by a moment, because a frontend answers without asking the server.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from fedfleet.network.rules.peer_limits import Bucket, Limits, level, take
from fedfleet.network.server.recovery import add_line, read_lines
from fedfleet.store.files import write_atomically

_TASK, _CLIENT = "task", "client"


class Fault(NamedTuple):
    """A report of a task that came whole and could not be folded."""

    task: int
    crc32c: int
    nbytes: int
    reason: str


class Strikes:
    """The strikes of a run. Those of clients cool by the run's clock, which stands still while the server is down."""

    def __init__(self, path: Path) -> None:
        self._path, self._rule = path, Limits().strikes
        self._faults: dict[int, list[Fault]] = {}
        self._clients: dict[int, Bucket] = {}
        for line in read_lines(path):
            match line:
                case ["task", int(task), int(crc), int(nbytes), str(reason)]:
                    self._faults.setdefault(task, []).append(Fault(task, crc, nbytes, reason))
                case ["client", int(client), float(left), float(at)]:
                    self._clients[client] = Bucket(left, at)
                case _:
                    continue

    def on_fault(self, fault: Fault) -> None:
        """A report of a task was faulty; it is on the disk when this returns."""
        self._faults.setdefault(fault.task, []).append(fault)
        add_line(self._path, [_TASK, *fault])

    def on_strikes(self, clients: Iterable[int], now: float) -> None:
        """These clients were struck at a frontend; it is on the disk when this returns."""
        for client in clients:
            before = self._clients.get(client, Bucket(self._rule.burst, now))
            self._clients[client] = bucket = take(before, self._rule, now)[0]
            add_line(self._path, [_CLIENT, client, *map(float, bucket)])

    def forget(self, tasks: Iterable[int]) -> None:
        """These tasks are over."""
        for task in tasks:
            self._faults.pop(task, None)

    def restore(self, is_running: Callable[[int], bool], now: float) -> list[Fault]:
        """What a killed server had written down of tasks that still run; the rest is forgotten, in the file too."""
        self._faults = {task: faults for task, faults in self._faults.items() if is_running(task)}
        self._clients = {c: bucket for c, bucket in self._clients.items() if level(bucket, self._rule, now) < self._rule.burst}
        faults = [fault for faults in self._faults.values() for fault in faults]
        lines = [*([_TASK, *fault] for fault in faults), *([_CLIENT, c, *map(float, b)] for c, b in self._clients.items())]
        if self._path.exists():
            write_atomically(self._path, "".join(json.dumps(line) + "\n" for line in lines).encode())
        return faults

    def client_levels(self, now: float) -> list[list[float]]:
        """Clients that have been struck lately, each with how many strikes it has left; for a frontend that starts."""
        levels = ([client, level(bucket, self._rule, now)] for client, bucket in sorted(self._clients.items()))
        return [[client, left] for client, left in levels if left < self._rule.burst]
