"""What devices remember: of each client, the last task that was folded. Who takes a place over remembers nothing of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedfleet.core.records import Ints
from fedfleet.network.server.json_lines import add_line, lines_of


class Memories:
    """`task[client]` is the task whose memory the device of this client holds, -1 if it has none.

    Takeovers are on the disk: the journal says which tasks were folded, and not by which device.
    """

    def __init__(self, clients: int, path: Path) -> None:
        self.task: Ints = np.full(clients, -1, np.int64)
        self._path = path
        self._since: dict[int, int] = {}  # by client: the first task that the device which holds its place can have had
        for line in lines_of(path):
            match line:
                case [int(client), int(task)] if 0 <= client < clients:
                    self._since[client] = task
                case _:
                    continue

    def folded(self, client: int, task: int) -> None:
        """A report was folded: what its device remembered with it holds, if it is still the one that has the place."""
        if task >= self._since.get(client, 0):
            self.task[client] = task

    def taken_over(self, client: int, next_task: int) -> None:
        """Another device has the place; tasks from `next_task` on are its own."""
        add_line(self._path, [client, next_task])
        self._since[client] = next_task
        self.task[client] = -1

    def take_up(self, task: Ints) -> None:
        """Go on where a killed server was, by what its journal says."""
        self.task = task.copy()
        for client, since in self._since.items():
            if self.task[client] < since:
                self.task[client] = -1
