"""Reports that arrived and were refused before their commit: on the disk, since their devices will not send them again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fedfleet.network.server.json_lines import add_line, read_lines


class Refusals:
    """Why tasks were refused, by task, until their commit is made. A file with a line for each; a torn last line is passed over."""

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
        """Remember a refusal; it is on the disk when this returns."""
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
