"""What assembling gives: a record of everything that a run needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedfleet.app.spec import Spec
from fedfleet.core.parts import Executor, Plan, Task, World

if TYPE_CHECKING:
    from fedfleet.runtime.executors.stacked.forms import Form


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything that a run needs. The executor is made last, once everything else is known to fit together."""

    spec: Spec
    plan: Plan
    world: World
    task: Task
    executor: Callable[..., Executor]


@contextmanager
def executing(setup: Setup, form: Form | None = None) -> Iterator[Executor]:
    """The executor of a setup, in the given form, for as long as it is used; whatever it started is stopped afterwards."""
    execute = setup.executor(form)
    try:
        yield execute
    finally:
        if execute.close is not None:
            execute.close()
