"""What a run drew from batteries: joules that entered a model, joules that did not, and the carbon that they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from fedfleet.core.events import Event, Probed, TasksSpent
from fedfleet.core.records import FOLDED, Floats
from fedfleet.measure.tasks import Spending, Tasks


@dataclass(frozen=True, slots=True)
class Energy:
    """Joules of all devices: useful + wasted + probes = joules. `grams` of CO2, None if the grid is not known.

    Useful is what went into reports that were folded, wasted all other work that ended, probes what looking at clients took.
    """

    joules: float
    useful: float
    wasted: float
    probes: float
    grams: float | None


def energy(log: Iterable[Event], tasks: Tasks, spent: Spending) -> Energy | None:
    """The energy of a run; None if nobody counted it."""
    costs = [e.spent for e in log if isinstance(e, Probed | TasksSpent)]
    probe_costs = [e.spent for e in log if isinstance(e, Probed)]
    if not any("joules" in columns for columns in costs):
        return None
    joules, useful = np.nan_to_num(spent.column("joules")), tasks.fate == FOLDED
    sums = float(joules[useful].sum()), float(joules[~useful].sum()), _total(probe_costs, "joules")
    known = any("grams" in columns for columns in costs)
    return Energy(sum(sums), *sums, _total(costs, "grams") if known else None)


def _total(costs: Iterable[Mapping[str, Floats]], name: str) -> float:
    return sum((float(np.nansum(columns[name])) for columns in costs if name in columns), 0.0)
