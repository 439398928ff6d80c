"""Reports that arrived and were refused before their commit: on the disk, since their devices will not send them again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from fedfleet.core.errors import RunFailed


class Refusals:
    """Why tasks were refused, by task, until their commit is made. A file with a line for each; a torn last line is passed over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.reasons: dict[int, str] = {}
        if path.is_file():
            for line in path.read_text(errors="replace").splitlines():
                try:
                    task, why = json.loads(line)
                    self.reasons[int(task)] = str(why)
                except (ValueError, TypeError):
                    continue

    def add(self, task: int, why: str) -> None:
        """Remember a refusal; it is on the disk when this returns."""
        self.reasons[task] = why
        try:
            with self._path.open("a") as file:
                file.write(json.dumps([task, why]) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as wrong:
            raise RunFailed(f"{self._path} cannot be written ({wrong}); free some space, then resume") from wrong

    def forget(self, tasks: Iterable[int]) -> None:
        """Their commit is made."""
        gone = [task for task in tasks if self.reasons.pop(task, None) is not None]
        if gone and not self.reasons:
            self._path.unlink(missing_ok=True)

    def only(self, tasks: Iterable[int]) -> None:
        """Forget all but these: what a killed server left behind may be of commits that were made."""
        wanted = set(tasks)
        self.forget([task for task in self.reasons if task not in wanted])
