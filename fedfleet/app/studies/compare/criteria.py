"""What a recommendation may aim at: a value of each run, whether less of it is better, and how it is said."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from fedfleet.app.studies.compare.aim_names import AIMS, DEFAULT_AIM, check_aim
from fedfleet.app.studies.compare.records import ComparedRun
from fedfleet.app.studies.compare.run_data import accuracy_at, measure_at
from fedfleet.app.terminal.text import joules, percent, size, span
from fedfleet.measure.goal import Target, evaluations_at, target_text
from fedfleet.measure.measure_info import OWN, MeasureInfo, measure_info
from fedfleet.measure.score_info import ScoreInfo

__all__ = [
    "AIMS",
    "CRITERIA",
    "DEFAULT_AIM",
    "Criterion",
    "Yardstick",
    "accuracy_in_hand",
    "check_aim",
    "cost_to_target",
    "criterion_of",
    "has_model",
]
MARGIN = 0.02  # differences of a score below are equal for practice: 2 points
COST_MARGIN = 0.1  # and of costs: 10 %
_SCORE = ScoreInfo()
_ACCURACY = measure_info("accuracy", _SCORE)


@dataclass(frozen=True, slots=True)
class Yardstick:
    """When accuracy or a measure is compared (None: at the end of each run), and what is to be reached."""

    seconds: float | None = None
    target: Target | None = None


@dataclass(frozen=True, slots=True)
class Criterion:
    """One aim. `value` is that of a run: None if it has none. Shares differ by points; costs, of which less is better, by a share;
    other measures in their own units.

    `failure` says of runs without a value what they did not do. `info` is the measure that is compared, and `score_info` that of
    the runs.
    """

    name: str
    value: Callable[[ComparedRun, Yardstick], float | None]
    is_cost: bool
    unit: Callable[[float], str]
    less: str = ""
    info: MeasureInfo = _ACCURACY
    score_info: ScoreInfo = _SCORE

    @property
    def at_equal_time(self) -> bool:
        """Is it compared at one moment of all runs?"""
        return not self.is_cost and self.name != "fairness"

    def margin(self, value: float) -> float:
        """Which differences are equal for practice, at values of this size."""
        if self.is_cost:
            return COST_MARGIN
        return MARGIN if self.info.percent or self.info.is_score else MARGIN * abs(value)

    def score(self, value: float) -> float:
        """The value on a scale where more is better and differences add up: of costs the negative logarithm."""
        if self.is_cost:
            return -math.log(max(value, 1e-9))
        return -value if self.info.lower else value

    def difference(self, scores: float) -> float:
        """A difference of scores as people know it: of costs the share that is saved."""
        return 1 - math.exp(-scores) if self.is_cost else scores

    def failure(self, by: Yardstick) -> str:
        """What a run without a value of its own did not do."""
        if self.at_equal_time:
            return "had no model by then" if by.seconds is not None else "made no model"
        return f"did not reach {target_text(by.target or 0.0, self.score_info)}" if self.is_cost else "made no model"


def criterion_of(aim: str, score: ScoreInfo) -> Criterion:
    """The criterion of this aim for runs with such a score.

    >>> from fedfleet.core.kinds import KINDS
    >>> by = criterion_of("rmse", ScoreInfo(KINDS["regression"]))
    >>> by.score(54.0), by.unit(54.321), by.info.label
    (-54.0, '54.3', 'RMSE')
    """
    if aim in AIMS:
        info = measure_info("accuracy_bottom10" if aim == "fairness" else "accuracy", score)
        found = CRITERIA[aim]
        return replace(found, info=info, score_info=score, unit=found.unit if found.is_cost else info.text)
    info = measure_info(aim, score)
    name = aim.removeprefix(OWN)
    return Criterion(aim, lambda run, by: _measure(run, name, by), False, info.text, info=info, score_info=score)


def has_model(run: ComparedRun, seconds: float | None) -> bool:
    """Had the run made a model by then?"""
    return run.first is not None and (seconds is None or run.first <= seconds)


def accuracy_in_hand(run: ComparedRun, seconds: float | None) -> float | None:
    """The score of what a user holds at a moment (None: at the end). Without a model that is the first weights: as they were
    evaluated, else the accuracy of chance. None: a model was made and not evaluated."""
    value = accuracy_at(run, run.end if seconds is None else seconds)
    if value is None and not has_model(run, seconds):
        chance = run.metrics.get("chance")
        return None if chance is None else float(chance)
    return value


def _accuracy(run: ComparedRun, by: Yardstick) -> float | None:
    return accuracy_in_hand(run, by.seconds)


def _measure(run: ComparedRun, name: str, by: Yardstick) -> float | None:
    return measure_at(run, name, run.end if by.seconds is None else by.seconds)


def _worst_tenth(run: ComparedRun, by: Yardstick) -> float | None:
    del by
    value = run.metrics.get("accuracy_bottom10")
    return None if value is None else float(value)


def cost_to_target(run: ComparedRun, what: Literal["seconds", "traffic", "joules"], target: Target | None) -> float | None:
    """What the run had cost when an evaluation first reached the target; None if none did, or if it is not known."""
    costs = {"seconds": run.seconds, "traffic": run.traffic, "joules": run.joules}[what]
    reached = evaluations_at(target, run.accuracy, run.measures) if target is not None else []
    if not len(reached) or len(costs) != len(run.accuracy):
        return None
    return float(costs[reached[0]])


CRITERIA: Mapping[str, Criterion] = {
    one.name: one
    for one in (
        Criterion("accuracy", _accuracy, False, percent),
        Criterion("time", lambda run, at: cost_to_target(run, "seconds", at.target), True, span, "less time"),
        Criterion("fairness", _worst_tenth, False, percent),
        Criterion("bytes", lambda run, at: cost_to_target(run, "traffic", at.target), True, size, "less traffic"),
        Criterion("joules", lambda run, at: cost_to_target(run, "joules", at.target), True, joules, "less energy"),
    )
}
