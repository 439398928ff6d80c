"""What accuracy costs: how good a model is to be had for so many joules or bytes, and how many it takes to reach a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedfleet.core.old_names import old_symbols
from fedfleet.core.records import Floats
from fedfleet.measure.run_progress import Log, read_progress

Price = Literal["seconds", "joules", "bytes"]
SHARES = (0.25, 0.5, 0.75, 1.0)  # of what a run cost in all, of which `budgets` tells
TARGETS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # accuracies of which `targets` tells


@dataclass(frozen=True, slots=True)
class CostCurve:
    """The best accuracy so far on the central test set, at each evaluation, against what the run had cost until then."""

    cost: Floats
    best: Floats


def cost_curve(log: Log, what: Price) -> CostCurve:
    """Accuracy against cumulative cost: virtual seconds, joules, or bytes in both directions.

    Waste and probes are in it. A task's cost is known when its round closes; of those still running nothing is counted yet.
    """
    evaluations = [e for e in read_progress(log).evaluations if e.total]
    costs = np.array([getattr(e, "time" if what == "seconds" else what) for e in evaluations], np.float64)
    return CostCurve(costs, np.maximum.accumulate(np.array([e.accuracy for e in evaluations], np.float64)))


def accuracy_under(curve: CostCurve, budget: float) -> float | None:
    """The best model to be had for at most so much; None if even the first costs more.

    >>> curve = CostCurve(np.array([0.0, 10.0, 20.0]), np.array([0.1, 0.6, 0.9]))
    >>> accuracy_under(curve, 15.0), cost_to_reach(curve, 0.6), cost_to_reach(curve, 0.95)
    (0.6, 10.0, None)
    """
    within = np.flatnonzero(curve.cost <= budget)
    return float(curve.best[within[-1]]) if len(within) else None


def cost_to_reach(curve: CostCurve, target: float) -> float | None:
    """What it had cost when an evaluation first reached the target; None if none did."""
    reached = np.flatnonzero(curve.best >= target)
    return float(curve.cost[reached[0]]) if len(reached) else None


def budgets(log: Log) -> dict[str, list[dict[str, Any]]]:
    """The best accuracy under quarters of what the run cost in all, for each price that is known."""
    result: dict[str, list[dict[str, Any]]] = {}
    for what, curve in _curves(log).items():
        total = float(curve.cost[-1])
        result[what] = [{"budget": s * total, "accuracy": accuracy_under(curve, s * total)} for s in SHARES]
    return result


def targets(log: Log) -> list[dict[str, Any]]:
    """What it cost to reach each of TARGETS that was reached, and the best accuracy of all."""
    curves = _curves(log)
    if not curves:
        return []
    best = float(curves["seconds"].best[-1])
    levels = [target for target in TARGETS if target < best] + [best]
    return [{"accuracy": target, **{what: cost_to_reach(c, target) for what, c in curves.items()}} for target in levels]


def _curves(log: Log) -> dict[str, CostCurve]:
    """Accuracy against seconds, and against what else is counted in this journal."""
    progress = read_progress(log)
    result = {what: cost_curve(progress, what) for what in ("seconds", "joules", "bytes")}
    return {what: curve for what, curve in result.items() if len(curve.cost) and (what == "seconds" or curve.cost[-1] > 0)}


if not TYPE_CHECKING:
    __getattr__ = old_symbols(__name__, priced="cost_curve", cost_to="cost_to_reach")
