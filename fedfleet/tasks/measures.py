"""What an evaluation measures beside its score, from outputs and labels as arrays. Nothing here imports torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedfleet.core.kinds import IGNORED
from fedfleet.core.parts import Dataset, Task, Trial
from fedfleet.core.records import Floats, Score
from fedfleet.core.trees import Array

MEASURE_DIGITS = 9  # decimal digits of a measure: exact in a journal
_MOST_LOSS = 700.0  # whose exponential is still a number


def spread_of(task: Task) -> Floats | None:
    """The variance that R2 is measured against, the mean over all outputs on the central test set; None for other kinds.

    So R2 is the share of the variance of all outputs together, and an output that hardly varies cannot spoil it.
    """
    data = task.dataset
    if data.y.dtype.kind != "f":
        return None
    if data.spread:
        return np.array(data.spread, np.float64)
    values = np.asarray(data.y[task.holdout] if len(task.holdout) else data.y, np.float64)
    spread = float(values.var(0).mean())
    return np.full(values.shape[1], spread if spread > 0 else 1.0)


@dataclass(slots=True)
class Measuring:
    """The measures of a task while its model answers batch after batch; outputs are kept only where a measure needs them all."""

    task: Task
    outputs: list[Array] = field(default_factory=list[Array])
    labels: list[Array] = field(default_factory=list[Array])
    guesses: list[Array] = field(default_factory=list[Array])
    place_loss: float = 0.0

    def add(self, outputs: Array, labels: Array, place_loss: float = 0.0) -> None:
        """Take one batch; of sequences also the sum of the losses of its places."""
        if self.task.dataset.kind.places:
            self.place_loss += place_loss
            self.guesses.append(outputs.argmax(2))
        if self.task.metrics or not self.task.dataset.kind.places:
            self.outputs.append(outputs)
        self.labels.append(labels)

    def finish(self, score: Score) -> Score:
        """The score with the measures of the task's kind, and with what its own metrics say, as far as they are numbers."""
        if not self.labels:
            return score
        labels, data = np.concatenate(self.labels), self.task.dataset
        outputs = np.concatenate(self.outputs) if self.outputs else np.zeros(0, np.float32)
        if data.kind.places:
            values = place_measures(data, np.concatenate(self.guesses), labels, self.place_loss)
        else:
            values = kind_measures(data, outputs, labels)
        for name, metric in self.task.metrics.items():
            try:
                values[name] = float(metric(outputs.copy(), labels.copy()))
            except Exception:  # it is named at the end of the run, with its error
                continue
        kept = {name: rounded(value) for name, value in values.items() if math.isfinite(value)}
        return Score(score.correct, score.total, score.loss, kept)


def needs_measures(task: Task, trial: Trial) -> bool:
    """Does this evaluation compute more than a score?"""
    return trial.measured and bool(task.metrics or task.dataset.kind.measures)


def rounded(value: float) -> float:
    """A measure as a journal holds it: nine decimal digits, which read back as the same number.

    >>> rounded(0.1 + 0.2), rounded(123456789.123)
    (0.3, 123456789.0)
    """
    return float(f"{value:.{MEASURE_DIGITS}g}")


def kind_measures(data: Dataset, outputs: Array, labels: Array) -> dict[str, float]:
    """The measures beside the score of a kind of task, from a model's outputs; classification has none."""
    measures: Mapping[str, Callable[[], Any]] = {}
    if labels.dtype.kind == "f":
        errors = (outputs.reshape(labels.shape).astype(np.float64) - labels) * np.array(
            [sd for _, sd in data.target_scale] or [1.0]
        )
        measures = {"mae": lambda: np.abs(errors).mean(), "rmse": lambda: np.sqrt(np.square(errors).mean())}
    elif labels.dtype.kind == "b":
        guess = outputs > 0
        measures = {
            "f1_macro": lambda: mean_f1((guess & labels).sum(0), guess.sum(0), labels.sum(0)),
            "auroc": lambda: mean_auroc(outputs, labels),
            "exact_match": lambda: (guess == labels).all(1).mean(),
        }
    with np.errstate(over="ignore", invalid="ignore"):
        return {name: float(compute()) for name, compute in measures.items()}


def place_measures(data: Dataset, guesses: Array, labels: Array, loss: float) -> dict[str, float]:
    """The measures of sequences, from the best class at every place and the sum of the losses of all places."""
    counted = labels != IGNORED
    if data.kind.name == "next_token":
        return {"perplexity": math.exp(min(loss / max(int(counted.sum()), 1), _MOST_LOSS)) if loss == loss else math.nan}
    guess, truth = guesses[counted], labels[counted]
    count = lambda values: np.bincount(values, minlength=data.classes)  # noqa: E731
    return {"f1_macro": mean_f1(count(truth[guess == truth]), count(guess), count(truth))}


def mean_f1(hits: Array, guessed: Array, true: Array) -> float:
    """The mean over labels of 2 hits / (guessed + true), of those that occur or were guessed.

    >>> mean_f1(np.array([1, 0, 0]), np.array([1, 1, 0]), np.array([1, 1, 0]))
    0.5
    """
    total = guessed + true
    return float((2 * hits[total > 0] / total[total > 0]).mean()) if (total > 0).any() else math.nan


def mean_auroc(scores: Array, labels: Array) -> float:
    """The mean over labels of the probability that a sample with the label has a higher score than one without it.

    Ties count one half; labels that all samples have, or none, are left out.

    >>> mean_auroc(np.array([[0.1], [0.4], [0.35], [0.8]]), np.array([[False], [False], [True], [True]]))
    0.75
    """
    values: list[float] = []
    for column, truth in zip(scores.T, labels.T, strict=True):
        positives = int(truth.sum())
        if 0 < positives < len(truth):
            _, place, counts = np.unique(column, return_inverse=True, return_counts=True)
            ranks = np.cumsum(counts) - (counts - 1) / 2
            above = ranks[place][truth].sum() - positives * (positives + 1) / 2
            values.append(float(above) / (positives * (len(truth) - positives)))
    return float(np.mean(values)) if values else math.nan
