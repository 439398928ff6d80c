"""What devices remember: of each client, the last task that was folded. Who takes a place over remembers nothing of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedfleet.core.records import Ints
from fedfleet.network.server.json_lines import add_line, read_lines


class ClientState:
    """`task[client]` is the task whose memory the device of this client holds, -1 if it has none.

    Takeovers are on the disk: the journal says which tasks were folded, and not by which device.
    """

    def __init__(self, clients: int, path: Path) -> None:
        self.memory_task: Ints = np.full(clients, -1, np.int64)
        self._path = path
        self._first_task: dict[
            int, int
        ] = {}  # by client: the first task that the device which holds its place can have had
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
        """Go on where a killed server was, by what its journal says."""
        self.memory_task = task.copy()
        for client, first_task in self._first_task.items():
            if self.memory_task[client] < first_task:
                self.memory_task[client] = -1
