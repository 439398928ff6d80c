"""Per class: what a model took each class for, how many it found, and how many of those it named were right."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedfleet.core.records import Ints

MOST_CLASSES = 100  # beyond, neither a table nor a matrix says anything to a reader


def confusion_matrix(labels: Ints, answers: Ints, classes: int) -> Ints:
    """How many samples of each class (row) the model took for each class (column).

    >>> confusion_matrix(np.array([0, 0, 1]), np.array([0, 1, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    return np.bincount(labels * classes + answers, minlength=classes * classes).reshape(classes, classes)


def class_results(confusion: Ints) -> list[dict[str, Any]]:
    """For each class: how many samples there are, the share of them that was found (recall; None: there are none), and the share
    of what was taken for this class that is of it (precision; None: nothing was).

    >>> class_results(np.array([[1, 1], [0, 1]]))[1]
    {'label': 1, 'n': 1, 'recall': 1.0, 'precision': 0.5}
    """
    rows: list[dict[str, Any]] = []
    for label, (n, predicted) in enumerate(zip(confusion.sum(1).tolist(), confusion.sum(0).tolist(), strict=True)):
        right = int(confusion[label, label])
        recall, precision = right / n if n else None, right / predicted if predicted else None
        rows.append({"label": label, "n": n, "recall": recall, "precision": precision})
    return rows
