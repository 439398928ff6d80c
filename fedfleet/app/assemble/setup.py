"""What assembling gives: a record of everything that a run needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedfleet.app.spec import Spec
from fedfleet.core.parts import Executor, Plan, Task
from fedfleet.core.passes import NO_SETTINGS, LocalPass
from fedfleet.core.sources import World
from fedfleet.measure.warnings import chance_level

if TYPE_CHECKING:
    from fedfleet.executors.stacked.form_choice import Form

_NAMES_SHOWN = 3  # leaves that a sentence names


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything that a run needs. The executor is made last, once everything else is known to fit together."""

    spec: Spec
    plan: Plan
    world: World
    task: Task
    executor: Callable[..., Executor]
    warnings: tuple[str, ...] = ()  # what was odd about its parts when they were put together


def chance_of(task: Task) -> float | None:
    """What guessing would score on the central test set of a task."""
    return chance_level(task.dataset.y[task.holdout])


def metric_warnings(setup: Setup) -> list[str]:
    """One sentence for each figure of such a run that would mislead, whatever its journal says."""
    algorithm, params = setup.plan.algorithm, setup.plan.params
    client_pass = algorithm.local(0, NO_SETTINGS)
    keep = client_pass.keep if isinstance(client_pass, LocalPass) and algorithm.personal is not None else None
    personal = [] if keep is None else [name for name in params if keep(name)]
    if not personal:
        return []
    names = ", ".join(personal[:_NAMES_SHOWN]) + (", .." if len(personal) > _NAMES_SHOWN else "")
    return [
        f"{len(personal)} of the {len(params)} arrays of weights ({names}) stay on the clients, and the server's copies never "
        "change: read accuracy_clients, since no client uses the model that accuracy describes"
    ]


@contextmanager
def open_executor(setup: Setup, form: Form | None = None) -> Iterator[Executor]:
    """The executor of a setup, in the given form, for as long as it is used; whatever it started is stopped afterwards."""
    execute = setup.executor(form)
    try:
        yield execute
    finally:
        if execute.close is not None:
            execute.close()
