"""What a search wants: a measure of a run, as high or as low as it can be, and how far a run is on its way there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedfleet.app.terminal.text import percent, size, span
from fedfleet.core.errors import BadInput, suggest_name
from fedfleet.core.events import Evaluated
from fedfleet.measure.summary import summary

_DIRECTIONS = ("maximise", "minimise")
_SHARES = ("accuracy", "best_accuracy")
_HIGHER = ("accuracy", "best_accuracy", "commits", "utilisation")
_TEXTS = ("warnings", "stopped_by", "failed_rounds", "curve", "pace_timelines", "staleness", "targets", "budgets", "fates")


@dataclass(frozen=True, slots=True)
class Aim:
    """A measure by its name in metrics.json, one inside another by a dot (`time_to.0.8`), and whether less of it is better."""

    metric: str
    minimise: bool = False

    @property
    def known_early(self) -> bool:
        """Does an evaluation during a run have this measure? If not, no trial can be stopped early."""
        return self.metric in ("accuracy", "best_accuracy", "loss")

    def early_value(self, event: Evaluated) -> float | None:
        """What an evaluation on the way says."""
        if not event.total:
            return None
        return event.loss if self.metric == "loss" else event.correct / event.total

    def value_of(self, metrics: Mapping[str, Any]) -> float:
        """The value of a finished run: NaN if there is none; infinite if it is a time to something that was not reached."""
        first, _, rest = self.metric.partition(".")
        result: Any = metrics.get(first)
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
        if first in _SHARES or first.startswith("accuracy"):
            return percent(value)
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
        first = self.metric.partition(".")[0]
        if first in _SHARES or first.startswith("accuracy"):
            return f"{100 * abs(value - default):.1f} points {how}"
        return f"{self.format_value(abs(value - default))} {how}"

    @property
    def description(self) -> str:
        """The measure in words."""
        first, _, rest = self.metric.partition(".")
        if first == "time_to":
            return f"virtual time to {percent(float(rest))}"
        return {"accuracy": "accuracy of the last model", "best_accuracy": "best accuracy", "loss": "loss of the last model"}.get(
            first, self.metric
        )


def aim_of(metric: Any, direction: Any = None) -> Aim:
    """The aim of this name; what is better is known, or given by `direction`."""
    known = summary([])
    first, _, rest = str(metric).partition(".")
    if not isinstance(metric, str) or first not in known or first in _TEXTS:
        raise BadInput(f"tune.metric: a run has no measure {metric!r}{suggest_name(str(metric), known.keys() - {*_TEXTS})}")
    inside = known[first]
    if isinstance(inside, Mapping) and rest not in inside:
        raise BadInput(f"tune.metric = {metric!r}: choose one value of {first}{suggest_name(rest, map(str, inside))}")
    if direction is not None and direction not in _DIRECTIONS:
        raise BadInput(f"tune.direction = {direction!r} is not known{suggest_name(str(direction), _DIRECTIONS)}")
    higher = (first in _HIGHER or first.startswith("accuracy")) and first != "accuracy_std"
    return Aim(metric, not higher if direction is None else direction == "minimise")
