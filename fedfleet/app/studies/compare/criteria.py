"""What a recommendation may aim at: a value of each run, whether less of it is better, and how it is said."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from fedfleet.app.studies.compare.records import ComparedRun
from fedfleet.app.studies.compare.run_data import accuracy_at
from fedfleet.app.terminal.text import joules, percent, size, span
from fedfleet.core.errors import BadInput, suggest_name

AimName = Literal["accuracy", "time", "fairness", "bytes", "joules"]
AIMS: tuple[AimName, ...] = get_args(AimName)
DEFAULT_AIM: AimName = "accuracy"


@dataclass(frozen=True, slots=True)
class Yardstick:
    """When accuracy is compared (None: at the end of each run), and which accuracy is to be reached."""

    seconds: float | None = None
    target: float | None = None


@dataclass(frozen=True, slots=True)
class Criterion:
    """One aim. `value` is that of a run: None if it has none. Shares differ by points; costs, of which less is better, by a share.

    `failure` says of runs without a value what they did not do.
    """

    name: AimName
    value: Callable[[ComparedRun, Yardstick], float | None]
    is_cost: bool
    unit: Callable[[float], str]
    less: str = ""

    def score(self, value: float) -> float:
        """The value on a scale where more is better and differences add up: of costs the negative logarithm."""
        return -math.log(max(value, 1e-9)) if self.is_cost else value

    def difference(self, scores: float) -> float:
        """A difference of scores as people know it: of costs the share that is saved."""
        return 1 - math.exp(-scores) if self.is_cost else scores

    def failure(self, by: Yardstick) -> str:
        """What a run without a value of its own did not do."""
        if self.name == "accuracy":
            return "had no model by then" if by.seconds is not None else "made no model"
        return f"did not reach {percent(by.target)}" if self.is_cost else "made no model"


def check_aim(name: str, where: str = "--aim") -> AimName:
    """The aim of this name."""
    for aim in AIMS:
        if aim == name:
            return aim
    raise BadInput(f"{where}: there is no aim {name!r}{suggest_name(str(name), AIMS)}")


def has_model(run: ComparedRun, seconds: float | None) -> bool:
    """Had the run made a model by then?"""
    return run.first is not None and (seconds is None or run.first <= seconds)


def accuracy_in_hand(run: ComparedRun, seconds: float | None) -> float | None:
    """The accuracy of what a user holds at a moment (None: at the end). Without a model that is the first weights: as they were
    evaluated, else the accuracy of chance. None: a model was made and not evaluated."""
    value = accuracy_at(run, run.end if seconds is None else seconds)
    if value is None and not has_model(run, seconds):
        chance = run.metrics.get("chance")
        return None if chance is None else float(chance)
    return value


def _accuracy(run: ComparedRun, by: Yardstick) -> float | None:
    return accuracy_in_hand(run, by.seconds)


def _worst_tenth(run: ComparedRun, by: Yardstick) -> float | None:
    del by
    value = run.metrics.get("accuracy_bottom10")
    return None if value is None else float(value)


def cost_to_target(run: ComparedRun, what: Literal["seconds", "traffic", "joules"], target: float | None) -> float | None:
    """What the run had cost when an evaluation first reached the target; None if none did, or if it is not known."""
    costs = {"seconds": run.seconds, "traffic": run.traffic, "joules": run.joules}[what]
    reached = np.flatnonzero(run.accuracy >= target) if target is not None else []
    if not len(reached) or len(costs) != len(run.accuracy):
        return None
    return float(costs[reached[0]])


CRITERIA: Mapping[AimName, Criterion] = {
    one.name: one
    for one in (
        Criterion("accuracy", _accuracy, False, percent),
        Criterion("time", lambda run, at: cost_to_target(run, "seconds", at.target), True, span, "less time"),
        Criterion("fairness", _worst_tenth, False, percent),
        Criterion("bytes", lambda run, at: cost_to_target(run, "traffic", at.target), True, size, "less traffic"),
        Criterion("joules", lambda run, at: cost_to_target(run, "joules", at.target), True, joules, "less energy"),
    )
}
