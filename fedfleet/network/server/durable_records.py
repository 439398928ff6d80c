"""Small facts that must outlive a kill beside the journal: rejected reports, and devices that took another's place.

Each file has a line of JSON for a fact. A line that was torn by a kill is passed over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core.errors import RunFailed
from fedfleet.core.records import Ints


def read_lines(path: Path) -> list[Any]:
    """What the file holds, in order; nothing if there is none."""
    lines: list[Any] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else ():
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    return lines


def add_line(path: Path, value: Any) -> None:
    """Add a line, after the end of one that was torn; it is on the disk when this returns."""
    try:
        new = not path.exists()
        with path.open("ab+") as file:
            size = file.seek(0, os.SEEK_END)
            torn = size > 0 and os.pread(file.fileno(), 1, size - 1) != b"\n"
            file.write((b"\n" if torn else b"") + json.dumps(value).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if new:
            handle = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
    except OSError as error:
        raise RunFailed(f"{path} cannot be written ({error}); free some space, then resume") from error


class Rejections:
    """Why reports were rejected before their commit, by task, until it is made: their devices do not send them again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.reasons: dict[int, str] = {}
        for line in read_lines(path):
            match line:
                case [int(task), str(why)]:
                    self.reasons[task] = why
                case _:
                    continue

    def add(self, task: int, why: str) -> None:
        """Remember a rejection; it is on the disk when this returns."""
        self.reasons[task] = why
        add_line(self._path, [task, why])

    def forget(self, tasks: Iterable[int]) -> None:
        """Their commit is made."""
        forgotten = [task for task in tasks if self.reasons.pop(task, None) is not None]
        if forgotten and not self.reasons:
            self._path.unlink(missing_ok=True)

    def keep_only(self, tasks: Iterable[int]) -> None:
        """Forget all but these: what a killed server left behind may be of commits that were made."""
        wanted = set(tasks)
        self.forget([task for task in self.reasons if task not in wanted])


class ClientState:
    """What devices remember: of each client, the last task that was folded. A device that takes a place over remembers nothing.

    `memory_task[client]` is the task whose memory the device of this client holds, -1 if it has none. Takeovers are on the disk:
    the journal says which tasks were folded, and not by which device.
    """

    def __init__(self, clients: int, path: Path) -> None:
        self.memory_task: Ints = np.full(clients, -1, np.int64)
        self._path = path
        # By client: the first task that the device which has its place now can have been given.
        self._first_task: dict[int, int] = {}
        for line in read_lines(path):
            match line:
                case [int(client), int(task)] if 0 <= client < clients:
                    self._first_task[client] = task
                case _:
                    continue

    def record_folded(self, client: int, task: int) -> None:
        """A report was folded: what its device remembered with it holds, if it is still the one that has the place."""
        if task >= self._first_task.get(client, 0):
            self.memory_task[client] = task

    def record_takeover(self, client: int, next_task: int) -> None:
        """Another device has the place; tasks from `next_task` on are its own."""
        add_line(self._path, [client, next_task])
        self._first_task[client] = next_task
        self.memory_task[client] = -1

    def restore(self, task: Ints) -> None:
        """Resume where a killed server stopped, by what its journal says."""
        self.memory_task = task.copy()
        for client, first_task in self._first_task.items():
            if self.memory_task[client] < first_task:
                self.memory_task[client] = -1
