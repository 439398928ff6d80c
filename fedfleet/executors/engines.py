"""Executors by the engine that trains, as on a device: one client after the other."""

from __future__ import annotations

from fedfleet.core.engines import EngineName
from fedfleet.core.parts import Executor, Task


def open_engine(name: EngineName, task: Task, *, threads: int = 1) -> Executor:
    """The executor that trains this task with an engine; it loads the engine's package."""
    if name == "torch":
        from fedfleet.executors.inline import inline

        return inline(task, threads=threads)
    from fedfleet.executors.described_executor import described_executor

    return described_executor(name, task, threads=threads)
