"""Quantities of a run by name: a measure, a key of its spec, a metric of its fleet; and what only a study knows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedfleet.app.spec import Spec
from fedfleet.app.studies.compare.run_data import accuracy_at
from fedfleet.app.studies.compare.target_times import time_to
from fedfleet.app.studies.grid.analyses import ShareOfBest, target_of
from fedfleet.app.studies.grid.run_cache import Ran
from fedfleet.core.errors import BadInput
from fedfleet.measure.statistics.survival import Reached

Hardness = Callable[[Spec, str], float]
FLEET = "seeds.fleet"


@dataclass(frozen=True, slots=True)
class Aims:
    """What the runs of a study are measured by together: the virtual time that all of them lasted, and the accuracy to be reached.

    `equal_time` is None where no run made a model, `target` where nobody named one.
    """

    equal_time: float | None
    target: float | None
    hardness: Hardness


def arms_of(cells: Sequence[Ran]) -> dict[str, list[Ran]]:
    """The runs of each arm, in the order of the file."""
    found: dict[str, list[Ran]] = {}
    for ran in cells:
        found.setdefault(ran.cell.arm, []).append(ran)
    return found


def equal_time(cells: Sequence[Ran]) -> float | None:
    """The end of the shortest run that made a model, in virtual seconds."""
    return min((ran.run.end for ran in cells if ran.good and ran.run), default=None)


def aimed_at(asked: float | str | None, cells: Sequence[Ran], baseline: str | None) -> float | None:
    """The target accuracy that was asked for; a share of an arm's best is of the best accuracy that its runs had on average."""
    wanted = target_of(asked)
    if not isinstance(wanted, ShareOfBest):
        return wanted
    arm = baseline if wanted.arm == "baseline" else wanted.arm
    if arm is None:
        raise BadInput(f'target = "{asked}" needs to know the baseline; write baseline = "ARM"')
    best = [
        max(ran.run.accuracy) for ran in cells if ran.cell.arm == arm and ran.good and ran.run and len(ran.run.accuracy)
    ]
    return wanted.share * float(sum(best)) / len(best) if best else None


def quantity(ran: Ran, name: str, aims: Aims) -> Any:
    """The quantity of this name; None where the run has none: it failed, or never got there."""
    spec = ran.cell.spec
    first, _, rest = name.partition(".")
    if name == "arm":
        return ran.cell.arm
    if first == "measure":
        return aims.hardness(spec, rest)
    if ran.run is not None and (first in ran.run.metrics or name in _DERIVED):
        found = _DERIVED[name](ran, aims) if name in _DERIVED else _inside(ran.run.metrics, name)
        return found if ran.good or first not in _OF_A_MODEL else None
    return _SEEDS[name](spec) if name in _SEEDS else _inside(spec.table(), name)


def number(ran: Ran, name: str, aims: Aims, where: str) -> float | None:
    """The same as a number; text is refused. A loss that is none any more, or an endless limit, has no mean."""
    found = quantity(ran, name, aims)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, float | int):
        raise BadInput(f"{where}: {name!r} is {found!r} in {ran.cell.title!r}, not a number")
    return float(found) if math.isfinite(found) else None


def reached(ran: Ran, target: float) -> Reached | None:
    """When the run had the target, or how long it was watched; None if it never ran."""
    return None if ran.run is None else time_to(ran.run, target)


def _at_equal_time(ran: Ran, aims: Aims) -> float | None:
    return None if ran.run is None or aims.equal_time is None else accuracy_at(ran.run, aims.equal_time)


def _to_target(ran: Ran, aims: Aims) -> float | None:
    found = None if aims.target is None else reached(ran, aims.target)
    return found.seconds if found is not None and found.reached else None


def _all_bytes(ran: Ran, aims: Aims) -> float | None:
    del aims
    return None if ran.run is None else float(ran.run.metrics["bytes_up"] + ran.run.metrics["bytes_down"])


_DERIVED: dict[str, Callable[[Ran, Aims], float | None]] = {
    "accuracy_at_equal_time": _at_equal_time,
    "time_to_target": _to_target,
    "bytes": _all_bytes,
}
# A part whose seed nobody set is drawn from the run's own.
_SEEDS: dict[str, Callable[[Spec], int]] = {
    FLEET: lambda spec: spec.fleet_seed,
    "seeds.data": lambda spec: spec.data_seed,
    "seeds.training": lambda spec: spec.training_seed,
}
# What a run without a model has no value of: its first weights are nobody's result.
_OF_A_MODEL = (
    "accuracy", "best_accuracy", "loss", "accuracy_clients", "accuracy_bottom10", "accuracy_worst10_mean", "accuracy_std",
    "accuracy_never", "accuracy_unseen", "accuracy_at_equal_time", "convergence_seconds",
)  # fmt: skip


def _inside(table: Any, name: str) -> Any:
    """What lies under a dotted name; a key may have a dot itself, as in time_to.0.8."""
    if not isinstance(table, Mapping):
        return None
    if name in table:
        return table[name]
    first, _, rest = name.partition(".")
    return _inside(table.get(first), rest) if rest else None
