"""The curve of a run as plain lists, as `metrics.json` holds it, and when it first reached each of a row of targets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fedfleet.core.records import Ints
from fedfleet.measure.accuracy import Curve, learning_curve
from fedfleet.measure.budget import cost_curve
from fedfleet.measure.run_progress import Log, read_progress

MOST_POINTS = 2000  # beyond, points are left out evenly: a page cannot show more
TARGETS = tuple(round(0.05 * i, 2) for i in range(1, 20))  # accuracies of which `time_to` tells


def curve_table(log: Log, most: int = MOST_POINTS) -> dict[str, list[float] | list[float | None] | None]:
    """One entry per evaluation: virtual seconds, commits, rounds tried, bytes moved in both directions, accuracy, loss.

    Loss is None where it is no number; `bytes` as a whole where the journal counts none; `unseen` is the accuracy on people held
    out from training, where there are any. Bytes of a task are known when its round closes. Nothing changes between two entries
    but what nobody looked at: a curve is made of steps.
    """
    progress = read_progress(log)
    curve, spent = learning_curve(progress), cost_curve(progress, "bytes").cost
    evaluations = [e for e in progress.evaluations if e.total]
    points = thin_points(len(curve.seconds), most)
    bytes_moved = spent[points].tolist() if len(spent) and spent[-1] > 0 else None
    table: dict[str, Any] = {
        "seconds": curve.seconds[points].tolist(),
        "commits": curve.versions[points].astype(np.int64).tolist(),
        "rounds": np.array([e.rounds for e in evaluations], np.int64)[points].tolist(),
        "bytes": bytes_moved,
        "accuracy": curve.accuracy[points].tolist(),
        "loss": [value if math.isfinite(value) else None for value in curve.loss[points].tolist()],
    }
    unseen = [None if e.unseen is None else e.unseen.correct / e.unseen.total for e in evaluations]
    return {**table, "unseen": [unseen[i] for i in points.tolist()]} if any(v is not None for v in unseen) else table


def times_to(curve: Curve) -> dict[str, float | None]:
    """Virtual seconds until an evaluation first reached each of TARGETS; None: it was not reached in this run.

    >>> one = np.array([0.0, 10.0])
    >>> found = times_to(Curve(one, one, np.array([0.1, 0.52]), one))
    >>> found["0.1"], found["0.5"], found["0.55"]
    (0.0, 10.0, None)
    """
    result: dict[str, float | None] = {}
    for target in TARGETS:
        reached = np.flatnonzero(curve.accuracy >= target)
        result[f"{target:g}"] = float(curve.seconds[reached[0]]) if len(reached) else None
    return result


def thin_points(points: int, most: int) -> Ints:
    """Which of so many points are shown: all, or `most` of them evenly, with the first and the last.

    >>> thin_points(3, 5).tolist(), thin_points(9, 3).tolist()
    ([0, 1, 2], [0, 4, 8])
    """
    if points <= most:
        return np.arange(points)
    return np.round(np.linspace(0, points - 1, most)).astype(np.int64)
