"""Times to accuracy of which some were not reached: Kaplan and Meier's curve, its median, and the restricted mean.

A run that ended before it reached the target says only "later than this". Leaving it out, or counting its end as the time, would
favour arms that fail. E. L. Kaplan, P. Meier: Nonparametric estimation from incomplete observations, 1958.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.records import Floats
from fedfleet.measure.statistics.means import Mean, finite_values, quantile

_HALF = 0.5 + 1e-12  # a product of fractions that is a half in truth


@dataclass(frozen=True, slots=True)
class TargetTime:
    """When a run reached the target; if it did not, how long it was watched."""

    seconds: float
    reached: bool


@dataclass(frozen=True, slots=True)
class Step:
    """From these seconds on, the share of runs that still wait for the target; `at_risk` were watched until then."""

    seconds: float
    waiting: float
    at_risk: int
    arrived: int


def target_time(seconds: Sequence[float] | Floats, accuracy: Sequence[float] | Floats, end: float, target: float) -> TargetTime:
    """Of one run's evaluations: the first that reached the target, or the run's end without it.

    >>> target_time([10.0, 20.0, 30.0], [0.2, 0.7, 0.6], 40.0, 0.65), target_time([10.0], [0.2], 40.0, 0.65)
    (TargetTime(seconds=20.0, reached=True), TargetTime(seconds=40.0, reached=False))
    """
    reached_at = np.flatnonzero(np.asarray(accuracy, np.float64) >= target)
    return TargetTime(float(seconds[int(reached_at[0])]), True) if len(reached_at) else TargetTime(float(end), False)


def kaplan_meier(times: Sequence[float], reached: Sequence[bool]) -> list[Step]:
    """The steps of Kaplan and Meier's curve, one for each time at which a run reached the target.

    The share that waits falls by the factor 1 - arrived / at_risk; a run that was last seen at that very time was at risk still.

    >>> [(s.seconds, round(s.waiting, 3)) for s in kaplan_meier([1, 2, 2, 3], [True, True, False, True])]
    [(1.0, 0.75), (2.0, 0.5), (3.0, 0.0)]
    """
    observations = _observations(times, reached)
    waiting, steps = 1.0, list[Step]()
    for time in sorted({r.seconds for r in observations if r.reached}):
        at_risk = sum(r.seconds >= time for r in observations)
        arrived = sum(r.reached and r.seconds == time for r in observations)
        waiting *= (at_risk - arrived) / at_risk
        steps.append(Step(time, waiting, at_risk, arrived))
    return steps


def median_time(times: Sequence[float], reached: Sequence[bool]) -> float | None:
    """When half of the runs had reached the target, by Kaplan and Meier; None if fewer than half are known to have.

    >>> median_time([1, 2, 3], [True, True, False]), median_time([1, 2, 3], [True, False, False])
    (2.0, None)
    """
    return next((s.seconds for s in kaplan_meier(times, reached) if s.waiting <= _HALF), None)


def restricted_mean(times: Sequence[float], reached: Sequence[bool], horizon: float) -> Mean:
    """The mean of min(time, horizon): the area under Kaplan and Meier's curve up to the horizon.

    Its variance is Greenwood's, sum over steps of (area from there to the horizon)^2 d / (n (n - d)), times n / (n - 1): where
    every run was watched until it arrived or to the horizon, mean and interval are those of the plain mean of min(time, horizon).
    If nobody arrived, or there is one run, there is no interval. A horizon at which no run is observed any more is refused.

    >>> found = restricted_mean([10.0, 30.0, 50.0], [True, True, False], horizon=40.0)
    >>> round(found.value, 3), found.n
    (26.667, 3)
    """
    observations = _observations(times, reached)
    if not horizon > 0 or not math.isfinite(horizon):
        raise BadInput(f"horizon {horizon} must be a positive number of seconds")
    steps = [s for s in kaplan_meier(times, reached) if s.seconds <= horizon]
    latest = max(r.seconds for r in observations)
    if latest < horizon and (not steps or steps[-1].waiting > 0):
        raise BadInput(f"horizon {horizon:g} s is later than the last observation, {latest:g} s; give at most {latest:g}")
    n, starts = len(observations), [0.0, *(s.seconds for s in steps)]
    heights = [1.0, *(s.waiting for s in steps)]
    widths = np.diff([*starts, horizon])
    areas = np.array(heights) * widths
    value = float(areas.sum())
    if n < 2 or not steps:
        return Mean(value, None, None, None, n)
    areas_after = [float(areas[i:].sum()) for i in range(1, len(areas))]
    spread = sum(
        area**2 * s.arrived / (s.at_risk * (s.at_risk - s.arrived))
        for area, s in zip(areas_after, steps, strict=True)
        if s.at_risk > s.arrived
    )
    error = math.sqrt(spread * n / (n - 1))
    half = quantile(n - 1) * error
    return Mean(value, error * math.sqrt(n), max(0.0, value - half), min(horizon, value + half), n)


def _observations(times: Sequence[float], reached: Sequence[bool]) -> list[TargetTime]:
    if len(times) != len(reached):
        raise BadInput(
            f"{len(times)} times need the same number of flags that say whether they were reached; there are {len(reached)}"
        )
    values = finite_values(times, "a time to accuracy")
    if min(values) < 0:
        raise BadInput(f"a time to accuracy cannot be negative, but one is {min(values):g} s")
    return [TargetTime(seconds, bool(there)) for seconds, there in zip(values, reached, strict=True)]
