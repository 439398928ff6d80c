"""What the two constants of the class clock are for a task and its data: read off short runs whose members are known.

A run with few reports a commit tells the noise b, one in which the same few people make every model tells gamma, by how much error
grows when models rest on few people's samples. Neither alone tells one of them alone, so both are sought together: those with which
all runs are foretold best, by least squares, each run counting alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedfleet.core.records import Floats, Ints
from fedfleet.measure.class_clock import Ideal, Participation, class_clock, predict_accuracy

EXPONENTS: Floats = np.round(np.arange(0.0, 0.601, 0.025), 3)  # of which one is chosen
_NOISE_STEPS, _TINY = 25, 1e-9


@dataclass(frozen=True, slots=True)
class ReferenceCurve:
    """A run on the ideal fleet's data: who was in its models, and its accuracy after 0, 1, .. commits."""

    part: Participation
    accuracy: Floats


def calibrate(ideal: Ideal, runs: Sequence[ReferenceCurve], labels: Ints, test: Floats, *, exponents: Floats = EXPONENTS) -> Ideal:
    """The ideal with the noise and the exponent that predict these runs best; it stays as it is where there are none."""
    least_error, best_ideal = np.inf, ideal
    fewest_reports = min((float(run.part.reports.mean()) for run in runs if run.part.commits), default=float(ideal.cohort))
    for noise in noises(fewest_reports, ideal.cohort):
        clocks = [class_clock(run.part, labels, cohort=ideal.cohort, noise=noise) for run in runs]
        for exponent in exponents.tolist():
            candidate = replace(ideal, noise=noise, exponent=exponent)
            error = sum(
                float(np.mean((predict_accuracy(clock, candidate, test) - run.accuracy) ** 2))
                for clock, run in zip(clocks, runs, strict=True)
            )
            if error < least_error:
                least_error, best_ideal = error, candidate
    return best_ideal if runs else ideal


def noises(few: float, cohort: int) -> list[float]:
    """Values of b to be tried: a commit of `few` reports is worth s = e(few) between few / k and 1, evenly spaced.

    >>> noises(2.0, 2)
    [0.0]
    """
    if few >= cohort:
        return [0.0]
    worth = np.linspace(1.0, few / cohort, _NOISE_STEPS)
    denominators = worth / few - 1.0 / cohort
    return [
        float((1.0 - s) / denominator) if denominator > _TINY else np.inf
        for s, denominator in zip(worth, denominators, strict=True)
    ]
