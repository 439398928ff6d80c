"""A setup: the record of everything that a run needs, and what is done with one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedfleet.app.assemble.dealt_people import DealtPeople
from fedfleet.app.spec import Spec
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Executor, Plan, Task
from fedfleet.core.passes import NO_SETTINGS, LocalPass
from fedfleet.core.sources import World
from fedfleet.measure.score_info import ScoreInfo, chance_level

if TYPE_CHECKING:
    from fedfleet.executors.stacked.form_choice import Form

_NAMES_SHOWN = 3  # leaves that a sentence names
_PIN = "# frozen weights: "  # a comment of a spec's text, before their hash


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything that a run needs. The executor is made last, once everything else is known to fit together."""

    spec: Spec
    plan: Plan
    world: World
    task: Task
    executor: Callable[..., Executor]
    # What was odd about its parts when they were put together.
    warnings: tuple[str, ...] = ()
    # Do clients train on other labels than the task's own data have, as poisoned clients do?
    labels_changed: bool = False
    # The people in data that are dealt by owner.
    people: DealtPeople | None = None


def score_of(task: Task) -> ScoreInfo:
    """What the score of a task is called, and what guessing would score on its central test set."""
    return ScoreInfo(task.dataset.kind, chance_level(task.dataset.y[task.holdout]), len(task.holdout))


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


def pin_frozen_weights(text: str, task: Task) -> str:
    """A spec's text that begins with the hash of the task's frozen weights, if it has any: they are in no spec and never travel,
    and a process that builds the spec again must come to the same ones."""
    return f"{_PIN}{task.frozen_name}\n{text}" if task.frozen else text


def check_pin(text: str, task: Task) -> None:
    """Refuse a task whose frozen weights are not those that the text was meant with."""
    pin = re.match(rf"{_PIN}\w+\n", text)
    if pin is not None and pin_frozen_weights("", task) != pin[0]:
        raise BadInput(
            "task.backbone: the frozen weights on this machine differ from those of the run; copy the weights "
            "file of the run to this machine"
        )
