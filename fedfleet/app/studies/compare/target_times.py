"""When runs and arms reached a target, a score or another measure: which one is asked for, and how long it took."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedfleet.app.studies.compare.records import Arm, ArmTargetTime, ComparedRun, Standing, score_of_runs
from fedfleet.app.terminal.value_checks import number
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import is_target
from fedfleet.measure.goal import Target, evaluations_at, plain_target, target_of
from fedfleet.measure.statistics.survival import TargetTime, median_time, restricted_mean

_SHARE, _GRID = 0.9, 20  # of the best accuracy, down to a twentieth


def choose_target(arms: Sequence[Arm], standings: Sequence[Standing], requested: Target | None) -> Target | None:
    """The target to time: as asked, else what all specs stop at if a run got there, else nine tenths of the best mean at the end,
    rounded down to 5 %. None if nothing was evaluated, or no R2 is above 0."""
    if requested is not None:
        return check_target_value(requested)
    runs = [run for arm in arms for run in arm.runs]
    specs = {target_of(run.table["stop"]) for run in runs}
    common = specs.pop() if len(specs) == 1 else None
    if common is not None and any(time_to(run, common).reached for run in runs):
        return common
    best = max((s.mean.value for s in standings if s.mean), default=None)
    if best is not None and best <= 0 and not score_of_runs(runs).kind.percent:
        return None
    return None if best is None else max(1, math.floor(_SHARE * best * _GRID + 1e-9)) / _GRID


def check_target_value(requested: object) -> Target:
    """A target that somebody typed: a share of the score, or a limit of another measure."""
    if isinstance(requested, str) and is_target(requested):
        return plain_target(requested)
    try:
        value = float(requested) if isinstance(requested, str) else number("--target", requested)
    except ValueError:
        raise BadInput(
            f'--target {requested!r} is not a number; give a score such as 0.8, or a limit such as "rmse <= 3.5"'
        ) from None
    if not 0 < value <= 1:
        raise BadInput(f'--target {value:g} must be a share above 0 and at most 1, such as 0.8, or a limit such as "rmse <= 3.5"')
    return value


def arm_target_time(arm: Arm, target: Target, horizon: float | None) -> ArmTargetTime:
    """The times of an arm's runs to the target together; `horizon`: until when every run was watched."""
    runs = [time_to(run, target) for run in arm.runs]
    times, reached = [r.seconds for r in runs], [r.reached for r in runs]
    watched = horizon is not None and horizon > 0 and all(r.reached or r.seconds >= horizon for r in runs)
    mean = restricted_mean(times, reached, horizon) if watched and horizon else None
    return ArmTargetTime(arm.name, median_time(times, reached), mean, sum(reached), len(runs))


def time_to(run: ComparedRun, target: Target) -> TargetTime:
    """When a run first evaluated at the target or better, or its end without that."""
    reached = evaluations_at(target, run.accuracy, run.measures)
    return TargetTime(float(run.seconds[reached[0]]), True) if len(reached) else TargetTime(float(run.end), False)
