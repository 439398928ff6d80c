"""How well and how fast a run learnt: the central test set, clients, classes; its curve as `metrics.json` holds it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedfleet.core.records import Bools, ClientScores, Floats, Ints
from fedfleet.measure.budget import cost_curve
from fedfleet.measure.run_progress import Evaluation, Log, read_progress


@dataclass(frozen=True, slots=True)
class Curve:
    """Accuracy (the score), loss and other measures of the evaluated models, by commit and by virtual second; NaN: not computed."""

    seconds: Floats
    versions: Floats
    accuracy: Floats
    loss: Floats
    measures: Mapping[str, Floats] = field(default_factory=dict[str, Floats])


def learning_curve(log: Log) -> Curve:
    """One point per evaluation on the central test set."""
    evaluations = [e for e in read_progress(log).evaluations if e.total]
    points = [(e.time, e.version, e.accuracy, e.loss) for e in evaluations]
    names = _known_measures(evaluations)
    measures = {name: np.array([e.measures.get(name, math.nan) for e in evaluations], np.float64) for name in names}
    seconds, versions, accuracy, loss = np.array(points, np.float64).reshape(-1, 4).T.copy()
    return Curve(seconds, versions, accuracy, loss, measures)


def final_accuracy(log: Log) -> float | None:
    """Accuracy of the last model on the central test set; None if it was never tried."""
    curve = learning_curve(log)
    return float(curve.accuracy[-1]) if len(curve.accuracy) else None


def time_to_accuracy(log: Log, target: float) -> float | None:
    """Virtual seconds until an evaluation first reached the target; None if none did."""
    return _time_to(learning_curve(log), target)


def _time_to(curve: Curve, target: float) -> float | None:
    reached = np.flatnonzero(curve.accuracy >= target)
    return float(curve.seconds[reached[0]]) if len(reached) else None


def convergence_time(log: Log) -> float | None:
    """Virtual seconds until the best evaluation, the first of equals."""
    curve = learning_curve(log)
    return float(curve.seconds[int(np.argmax(curve.accuracy))]) if len(curve.accuracy) else None


@dataclass(frozen=True, slots=True)
class ClientAccuracy:
    """Accuracy over clients, each on its own test data.

    `mean` is weighted by samples; `bottom10` is the 10th-percentile client, at the edge of the worst tenth; `worst10_mean` is the
    mean of the worst tenth itself (of as many clients as a tenth, rounded up), which lies below; `std` counts clients alike.
    """

    mean: float
    bottom10: float
    std: float
    worst10_mean: float


def client_accuracy(log: Log) -> ClientAccuracy | None:
    """Accuracy on the clients' own test shards at the last evaluation that looked at them."""
    last = read_progress(log).client_scores
    if last is None:
        return None
    share = last.correct / last.total
    mean = float(last.correct.sum() / last.total.sum())
    worst = np.sort(share)[: -(-len(share) // 10)]
    return ClientAccuracy(mean, float(np.percentile(share, 10)), float(share.std()), float(worst.mean()))


@dataclass(frozen=True, slots=True)
class AccuracyByParticipation:
    """Accuracy, over their own test samples, of the clients with a report in some model, and of those who never had one.

    None: there are no such clients with test samples, or nobody looked at clients.
    """

    took_part: float | None
    never: float | None


def accuracy_by_participation(log: Log, contributions: Ints) -> AccuracyByParticipation:
    """The last evaluation of clients, apart by whether any report of the client was folded; weighted by samples.

    Where all samples are trained on in one place nobody takes part as a client, and neither is known.
    """
    last = read_progress(log).client_scores
    if last is None or last.clients.max() >= len(contributions):
        return AccuracyByParticipation(None, None)
    participated = contributions[last.clients] > 0
    return AccuracyByParticipation(_mean_of(last, participated), _mean_of(last, ~participated))


def unseen_accuracy(log: Log) -> float | None:
    """Accuracy of the last model on people whose samples nobody trained on; None if none were held out."""
    scores = [e.unseen for e in read_progress(log).evaluations if e.unseen is not None]
    return scores[-1].correct / scores[-1].total if scores else None


def _mean_of(scores: ClientScores, which: Bools) -> float | None:
    return float(scores.correct[which].sum() / scores.total[which].sum()) if which.any() else None


def last_measures(log: Log) -> dict[str, float]:
    """The other measures of the last model on the central test set, by name; classification has none but a person's own."""
    measured = [e.measures for e in read_progress(log).evaluations if e.total]
    return {name: value for name, value in measured[-1].items() if math.isfinite(value)} if measured else {}


def _known_measures(evaluations: Iterable[Evaluation]) -> list[str]:
    """The measures that any of these has a number for: devices that evaluate report none but the score and the loss."""
    return list(dict.fromkeys(name for e in evaluations for name, value in e.measures.items() if math.isfinite(value)))


MOST_POINTS = 2000  # beyond, points are left out evenly: a page cannot show more
TARGETS = tuple(round(0.05 * i, 2) for i in range(1, 20))  # accuracies of which `time_to` tells


def curve_table(log: Log, most: int = MOST_POINTS) -> dict[str, list[float] | list[float | None] | None]:
    """One entry per evaluation: virtual seconds, commits, rounds tried, bytes moved in both directions, accuracy, loss.

    Loss is None where it is no number; `bytes` as a whole where the journal counts none; `unseen` is the accuracy on people held
    out from training, where there are any; `measures` are other measures by name. Bytes of a task are known when its round closes.
    Nothing changes between two entries but what nobody looked at: a curve is made of steps.
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
    if any(v is not None for v in unseen):
        table["unseen"] = [unseen[i] for i in points.tolist()]
    names = _known_measures(evaluations)
    if names:
        shown: list[Evaluation] = [evaluations[i] for i in points.tolist()]
        table["measures"] = {name: [_finite(e.measures.get(name)) for e in shown] for name in names}
    return table


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def times_to(curve: Curve) -> dict[str, float | None]:
    """Virtual seconds until an evaluation first reached each of TARGETS; None: it was not reached in this run.

    >>> one = np.array([0.0, 10.0])
    >>> found = times_to(Curve(one, one, np.array([0.1, 0.52]), one))
    >>> found["0.1"], found["0.5"], found["0.55"]
    (0.0, 10.0, None)
    """
    return {f"{target:g}": _time_to(curve, target) for target in TARGETS}


def thin_points(points: int, most: int) -> Ints:
    """Which of so many points are shown: all, or `most` of them evenly, with the first and the last.

    >>> thin_points(3, 5).tolist(), thin_points(9, 3).tolist()
    ([0, 1, 2], [0, 4, 8])
    """
    if points <= most:
        return np.arange(points)
    return np.round(np.linspace(0, points - 1, most)).astype(np.int64)


MOST_CLASSES = 100  # beyond, neither a table nor a matrix says anything to a reader


def confusion_matrix(labels: Ints, answers: Ints, classes: int) -> Ints:
    """How many samples of each class (row) the model took for each class (column).

    >>> confusion_matrix(np.array([0, 0, 1]), np.array([0, 1, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    return np.bincount(labels * classes + answers, minlength=classes * classes).reshape(classes, classes)


def class_results(confusion: Ints, names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """For each class: how many samples there are, the share of them that was found (recall; None: there are none), and the share
    of what was taken for this class that is of it (precision; None: nothing was); and its name, where `names` has one.

    >>> class_results(np.array([[1, 1], [0, 1]]))[1]
    {'label': 1, 'n': 1, 'recall': 1.0, 'precision': 0.5}
    """
    rows: list[dict[str, Any]] = []
    for label, (n, predicted) in enumerate(zip(confusion.sum(1).tolist(), confusion.sum(0).tolist(), strict=True)):
        right = int(confusion[label, label])
        recall, precision = right / n if n else None, right / predicted if predicted else None
        named = {"name": names[label]} if label < len(names) else {}
        rows.append({"label": label, **named, "n": n, "recall": recall, "precision": precision})
    return rows
