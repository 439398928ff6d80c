"""What a search wants: a measure of a run, as high or as low as it can be, and how far a run is on its way there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedfleet.app.terminal.text import percent, size, span
from fedfleet.core.errors import BadInput, suggest_name
from fedfleet.core.events import Evaluated
from fedfleet.measure.measure_info import MEASURE_NAMES, OWN, MeasureInfo, measure_info
from fedfleet.measure.score_info import ScoreInfo
from fedfleet.measure.summary import summary

_SCORE = ScoreInfo()
_DIRECTIONS = ("maximise", "minimise")
_SHARES = ("accuracy", "best_accuracy")
_HIGHER = ("accuracy", "best_accuracy", "commits", "utilisation")
_TEXTS = ("warnings", "stopped_by", "failed_rounds", "curve", "pace_timelines", "staleness", "targets", "budgets", "fates")


@dataclass(frozen=True, slots=True)
class Aim:
    """A measure by its name in metrics.json, one inside another by a dot (`time_to.0.8`), or of an evaluation by its own name
    (`rmse`, `own.recall`), and whether less of it is better. `score`: what the score of the runs is called."""

    metric: str
    minimise: bool = False
    score: ScoreInfo = _SCORE

    @property
    def info(self) -> MeasureInfo | None:
        """The score or the measure of an evaluation that this is; None for times, bytes and counts."""
        first = self.metric.partition(".")[0]
        if self.metric in MEASURE_NAMES or self.metric.startswith((OWN, "measures.")):
            return measure_info(self.metric.removeprefix("measures."), self.score)
        return measure_info(first, self.score) if first in _SHARES or first.startswith("accuracy") else None

    @property
    def evaluated_as(self) -> str:
        """The name under which evaluations have this measure; "" if they do not."""
        return "" if self.info is None or self.info.is_score else self.info.name.removeprefix(OWN)

    @property
    def known_early(self) -> bool:
        """Does an evaluation during a run have this measure? If not, no trial can be stopped early."""
        return self.metric in ("accuracy", "best_accuracy", "loss") or bool(self.evaluated_as)

    def early_value(self, event: Evaluated) -> float | None:
        """What an evaluation on the way says."""
        if not event.total:
            return None
        if self.evaluated_as:
            return event.measures.get(self.evaluated_as)
        return event.loss if self.metric == "loss" else event.correct / event.total

    def value_of(self, metrics: Mapping[str, Any]) -> float:
        """The value of a finished run: NaN if there is none; infinite if it is a time to something that was not reached."""
        first, _, rest = self.metric.partition(".")
        result: Any = metrics.get(first)
        if self.evaluated_as:
            own: Mapping[str, Any] = metrics.get("own") or {}
            result, rest = own.get(self.evaluated_as, (metrics.get("measures") or {}).get(self.evaluated_as)), ""
        if rest:
            result = result.get(rest) if isinstance(result, Mapping) else None
        if result is None and first == "time_to":
            return math.inf
        return float(result) if isinstance(result, int | float) and not isinstance(result, bool) else math.nan

    def is_better(self, a: float, b: float) -> bool:
        """Is a better than b?"""
        return a < b if self.minimise else a > b

    def format_value(self, value: float | None) -> str:
        """A value with its unit."""
        if value is None or math.isnan(value):
            return "-"
        if math.isinf(value):
            return "not reached"
        first = self.metric.partition(".")[0]
        if self.info is not None:
            return percent(value) if self.info.is_score and self.info.percent else self.info.text(value)
        if first == "time_to" or first.endswith("seconds"):
            return span(value)
        return size(value) if first.startswith("bytes") else f"{value:.4g}"

    def gain(self, value: float, default: float) -> str:
        """How far a value is from the default's, in words; "" where one of them is not a number."""
        if not (math.isfinite(value) and math.isfinite(default)):
            return ""
        how = "better than" if self.is_better(value, default) else "worse than"
        if value == default:
            return "the same as"
        if self.info is not None:
            return f"{self.info.difference(abs(value - default), sign=False)} {how}"
        return f"{self.format_value(abs(value - default))} {how}"

    @property
    def description(self) -> str:
        """The measure in words."""
        first, _, rest = self.metric.partition(".")
        if first == "time_to":
            return f"virtual time to {self.score.named(float(rest))}"
        if first in ("accuracy", "loss"):
            return f"{self.score.name if first == 'accuracy' else first} of the last model"
        if first == "best_accuracy":
            return f"best {self.score.name}"
        return f"{self.info.label} of the last model" if self.evaluated_as and self.info is not None else self.metric


def _check_direction(direction: Any) -> None:
    if direction is not None and direction not in _DIRECTIONS:
        raise BadInput(f"tune.direction = {direction!r} is not known{suggest_name(str(direction), _DIRECTIONS)}")


def aim_of(metric: Any, direction: Any = None) -> Aim:
    """The aim of this name; what is better is known, or given by `direction`."""
    if isinstance(metric, str) and (metric in MEASURE_NAMES or metric.startswith((OWN, "measures."))):
        _check_direction(direction)
        lower = measure_info(metric.removeprefix("measures."), _SCORE).lower
        return Aim(metric, lower if direction is None else direction == "minimise")
    known = summary([])
    first, _, rest = str(metric).partition(".")
    if not isinstance(metric, str) or first not in known or first in _TEXTS:
        raise BadInput(
            f"tune.metric: a run has no measure {metric!r}{suggest_name(str(metric), {*known.keys(), *MEASURE_NAMES} - {*_TEXTS})}"
        )
    inside = known[first]
    if isinstance(inside, Mapping) and rest not in inside:
        raise BadInput(f"tune.metric = {metric!r}: choose one value of {first}{suggest_name(rest, map(str, inside))}")
    _check_direction(direction)
    higher = (first in _HIGHER or first.startswith("accuracy")) and first != "accuracy_std"
    return Aim(metric, not higher if direction is None else direction == "minimise")
