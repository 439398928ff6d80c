"""When runs and arms reached an accuracy: which one is asked for, and how long it took."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedfleet.app.studies.compare.records import Arm, ArmTargetTime, ComparedRun, Standing
from fedfleet.app.terminal.value_checks import number
from fedfleet.core.errors import BadInput
from fedfleet.measure.statistics.survival import TargetTime, median_time, restricted_mean, target_time

_SHARE, _GRID = 0.9, 20  # of the best accuracy, down to a twentieth


def choose_target(arms: Sequence[Arm], standings: Sequence[Standing], requested: float | None) -> float | None:
    """The accuracy to time: as asked, else what all specs stop at if a run got there, else nine tenths of the best mean at the end,
    rounded down to 5 %. None if nothing was evaluated."""
    if requested is not None:
        requested = number("--target", requested)
        if not 0 < requested <= 1:
            raise BadInput(f"--target {requested:g} must be a share above 0 and at most 1, such as 0.8")
        return requested
    runs = [run for arm in arms for run in arm.runs]
    specs = {run.table["stop"].get("target_accuracy") for run in runs}
    common = specs.pop() if len(specs) == 1 else None
    if common is not None and any(time_to(run, common).reached for run in runs):
        return float(common)
    best = max((s.mean.value for s in standings if s.mean), default=None)
    return None if best is None else max(1, math.floor(_SHARE * best * _GRID + 1e-9)) / _GRID


def arm_target_time(arm: Arm, target: float, horizon: float | None) -> ArmTargetTime:
    """The times of an arm's runs to the target together; `horizon`: until when every run was watched."""
    runs = [time_to(run, target) for run in arm.runs]
    times, reached = [r.seconds for r in runs], [r.reached for r in runs]
    watched = horizon is not None and horizon > 0 and all(r.reached or r.seconds >= horizon for r in runs)
    mean = restricted_mean(times, reached, horizon) if watched and horizon else None
    return ArmTargetTime(arm.name, median_time(times, reached), mean, sum(reached), len(runs))


def time_to(run: ComparedRun, target: float) -> TargetTime:
    """When a run first evaluated at the target or better, or its end without that."""
    return target_time(run.seconds, run.accuracy, run.end, target)
