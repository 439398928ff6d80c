"""Quantities of a run by name: a measure, a key of its spec, a metric of its fleet; and what only a study knows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedfleet.app.fleets.hardness import tables_of
from fedfleet.app.fleets.metrics import measure_metric
from fedfleet.app.spec import Spec
from fedfleet.app.studies.compare.aim_names import AIMS
from fedfleet.app.studies.compare.criteria import accuracy_in_hand
from fedfleet.app.studies.compare.target_times import time_to
from fedfleet.app.studies.grid.analyses import ShareOfBest, parse_target
from fedfleet.app.studies.grid.study_runs import StudyRun
from fedfleet.core.errors import BadInput
from fedfleet.measure.goal import Target
from fedfleet.measure.measure_info import MEASURE_NAMES, OWN
from fedfleet.measure.montecarlo.settings import VIT_KB, Settings
from fedfleet.measure.score_info import ScoreInfo
from fedfleet.measure.statistics.survival import TargetTime

FleetMetric = Callable[[Spec, str], float]
FLEET = "seeds.fleet"


@dataclass(frozen=True, slots=True)
class Aims:
    """What the runs of a study are measured by together: the virtual time that all of them lasted, and what is to be reached.

    `equal_time` is None where no run made a model, `target` where none is set. `look`: how often these arms have been
    compared by now, each time with more seeds. `score` is what the score of the runs is called, `shown` the other measures that
    tables have beside it.
    """

    equal_time: float | None
    target: Target | None
    hardness: FleetMetric
    look: int = 1
    score: ScoreInfo = ScoreInfo()  # noqa: RUF009 (a frozen record)
    shown: tuple[str, ...] = ()


def arms_of(cells: Sequence[StudyRun]) -> dict[str, list[StudyRun]]:
    """The runs of each arm, in the order of the file."""
    result: dict[str, list[StudyRun]] = {}
    for study_run in cells:
        result.setdefault(study_run.cell.arm, []).append(study_run)
    return result


def equal_time(cells: Sequence[StudyRun]) -> float | None:
    """The end of the shortest run that made a model, in virtual seconds."""
    return min((study_run.run.end for study_run in cells if study_run.good and study_run.run), default=None)


def resolve_target(target: float | str | None, cells: Sequence[StudyRun], baseline: str | None) -> Target | None:
    """The target that was asked for; a share of an arm's best is of the best score that its runs had on average."""
    parsed = parse_target(target)
    if not isinstance(parsed, ShareOfBest):
        return parsed
    arm = baseline if parsed.arm == "baseline" else parsed.arm
    if arm is None:
        raise BadInput(f'target = "{target}" needs to know the baseline; write baseline = "ARM"')
    best = [
        max(study_run.run.accuracy)
        for study_run in cells
        if study_run.cell.arm == arm and study_run.good and study_run.run and len(study_run.run.accuracy)
    ]
    return parsed.share * float(sum(best)) / len(best) if best else None


def quantity(study_run: StudyRun, name: str, aims: Aims) -> Any:
    """The quantity of this name; None where the run has none: it failed, or never got there."""
    spec = study_run.cell.spec
    first, _, rest = name.partition(".")
    if name == "arm":
        return study_run.cell.arm
    if first == "measure":
        return aims.hardness(spec, rest)
    if name in MEASURE_NAMES or (first == "own" and rest):
        return _last_measure(study_run, name)
    if study_run.run is not None and (first in study_run.run.metrics or name in _DERIVED):
        result = _DERIVED[name](study_run, aims) if name in _DERIVED else _lookup(study_run.run.metrics, name)
        if study_run.good or first not in _MODEL_MEASURES:
            return result
        return accuracy_in_hand(study_run.run, None) if first in _IN_HAND else None
    return _SEEDS[name](spec) if name in _SEEDS else _lookup(spec.table(), name)


def _last_measure(study_run: StudyRun, name: str) -> Any:
    """A measure of a kind of task, or one of the person's own, of the last model; a run without a model has none."""
    if study_run.run is None or not study_run.good:
        return None
    metrics, key = study_run.run.metrics, name.removeprefix(OWN)
    own: Mapping[str, Any] = metrics.get("own") or {}
    return own.get(key, (metrics.get("measures") or {}).get(key))


def shown_measures(cells: Sequence[StudyRun], aim: str) -> tuple[str, ...]:
    """The measures that tables have beside the score: the main one of the kind of task, and the one that is aimed at."""
    score = score_of_cells(cells)
    own = [] if aim in AIMS else [aim]
    return tuple(dict.fromkeys([*([score.kind.main] if score.kind.main else []), *own]))


def score_of_cells(cells: Sequence[StudyRun]) -> ScoreInfo:
    """What the score of these runs is called."""
    return next((study_run.run.score for study_run in cells if study_run.run is not None), ScoreInfo())


def number(study_run: StudyRun, name: str, aims: Aims, where: str) -> float | None:
    """The same as a number; text is refused. A loss that is none any more, or an endless limit, has no mean."""
    result = quantity(study_run, name, aims)
    if result is None:
        return None
    if isinstance(result, bool) or not isinstance(result, float | int):
        raise BadInput(f"{where}: {name!r} is {result!r} in {study_run.cell.title!r}, not a number")
    return float(result) if math.isfinite(result) else None


def time_to_reach(study_run: StudyRun, target: Target) -> TargetTime | None:
    """When the run had the target, or how long it was watched; None if it never ran."""
    return None if study_run.run is None else time_to(study_run.run, target)


def _at_equal_time(study_run: StudyRun, aims: Aims) -> float | None:
    return None if study_run.run is None or aims.equal_time is None else accuracy_in_hand(study_run.run, aims.equal_time)


def _to_target(study_run: StudyRun, aims: Aims) -> float | None:
    result = None if aims.target is None else time_to_reach(study_run, aims.target)
    return result.seconds if result is not None and result.reached else None


def _all_bytes(study_run: StudyRun, aims: Aims) -> float | None:
    del aims
    return None if study_run.run is None else float(study_run.run.metrics["bytes_up"] + study_run.run.metrics["bytes_down"])


_DERIVED: dict[str, Callable[[StudyRun, Aims], float | None]] = {
    "accuracy_at_equal_time": _at_equal_time,
    "time_to_target": _to_target,
    "bytes": _all_bytes,
}
# A part without a seed of its own is drawn from the run's own.
_SEEDS: dict[str, Callable[[Spec], int]] = {
    FLEET: lambda spec: spec.fleet_seed,
    "seeds.data": lambda spec: spec.data_seed,
    "seeds.training": lambda spec: spec.training_seed,
}
# What a run without a model has no value of, but for its accuracy: that is the one of its first weights, which a user would hold.
_IN_HAND = ("accuracy", "best_accuracy", "accuracy_at_equal_time")
_MODEL_MEASURES = (
    "accuracy", "best_accuracy", "loss", "accuracy_clients", "accuracy_bottom10", "accuracy_worst10_mean", "accuracy_std",
    "accuracy_never", "accuracy_unseen", "accuracy_at_equal_time", "convergence_seconds", "measures",
)  # fmt: skip


def _lookup(table: Any, name: str) -> Any:
    """What lies under a dotted name; a key may have a dot itself, as in time_to.0.8."""
    if not isinstance(table, Mapping):
        return None
    if name in table:
        return table[name]
    first, _, rest = name.partition(".")
    return _lookup(table.get(first), rest) if rest else None


_MOST = 3000  # rounds: more of them change little
_DEADLINE, _COHORT = 120.0, 10  # where the pacing of a run has none


def fleet_metric(spec: Spec, name: str) -> float:
    """One of the six metrics of the fleet that this spec draws; each task is charged one sample, as FLHetBench does."""
    pace, size = spec.pace, spec.world["model_bytes"]
    k, rounds = pace.get("cohort") or _COHORT, min(spec.stop["rounds"], _MOST)
    settings = Settings(
        k=k,
        rounds=rounds,
        trips=k * rounds,
        deadline=float(pace.get("seconds") or _DEADLINE),
        size_kb=size / 1000 if size else VIT_KB,
    )
    devices, states, missing = tables_of(spec)
    if states is None and not name.startswith("Dev"):
        why = f" ({missing})" if missing else ""
        raise BadInput(f"measure.{name}: the fleet has no states that could be measured{why}; set world.states, or measure DevMC")
    of_devices, of_states = not name.startswith("Stat"), not name.startswith("Dev")
    result = measure_metric(name, settings, devices if of_devices else None, states if of_states else None, seeds=1)
    return float(result["value"])
