"""What assembling gives: a record of everything that a run needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedfleet.app.spec import Spec
from fedfleet.core.parts import Executor, Plan, Task, World


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything that a run needs. The executor is made last, once everything else is known to fit together."""

    spec: Spec
    plan: Plan
    world: World
    task: Task
    executor: Callable[..., Executor]


@contextmanager
def executing(setup: Setup, keep: Path | None = None) -> Iterator[Executor]:
    """The executor of a setup for as long as it is used; whatever it started is stopped afterwards."""
    execute = setup.executor(keep)
    try:
        yield execute
    finally:
        if execute.close is not None:
            execute.close()
