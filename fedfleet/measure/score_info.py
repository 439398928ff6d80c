"""What the score of a run is called, how people read it, and what guessing would reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedfleet.core.kinds import CLASSIFICATION, IGNORED, KINDS, Kind
from fedfleet.core.trees import Array

MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True, slots=True)
class ScoreInfo:
    """The kind of a run's task, and the chance level of its central test set, where that is known."""

    kind: Kind = CLASSIFICATION
    chance: float | None = None

    @property
    def name(self) -> str:
        """What the score is called: accuracy, R2, F1, token accuracy."""
        return self.kind.score

    def text(self, value: float) -> str:
        """A score as people read it.

        >>> ScoreInfo().text(0.8312), ScoreInfo(KINDS["regression"]).text(-0.25)
        ('83.1 %', '−0.250')
        """
        return f"{100 * value:.1f} %" if self.kind.percent else f"{value:.3f}".replace("-", MINUS)

    def difference(self, value: float, *, sign: bool = True) -> str:
        """A difference of two scores.

        >>> ScoreInfo().difference(0.031), ScoreInfo(KINDS["regression"]).difference(0.031)
        ('+3.1 points', '+0.031')
        """
        plus = "+" if sign and value >= 0 else ""
        text = f"{plus}{100 * value:.1f} points" if self.kind.percent else f"{plus}{value:.3f}"
        return text.replace("-", MINUS)

    def to_dict(self) -> dict[str, Any]:
        """As metrics.json holds it, under "score"."""
        return {"kind": self.kind.name, "name": self.name, "percent": self.kind.percent}


def chance_level(labels: Array) -> float | None:
    """What a model without knowledge would score on these labels: always the most frequent class or token; of several labels at
    once the most frequent ones, as many as give the best F1; of numbers their mean.

    >>> chance_level(np.array([0, 1, 1])), chance_level(np.zeros((3, 1), np.float32)), chance_level(np.eye(2) > 0)
    (0.6666666666666666, 0.0, 0.6666666666666666)
    """
    if not labels.size:
        return None
    if labels.dtype.kind == "f":
        return 0.0
    if labels.dtype.kind == "b":
        counts = np.sort(labels.sum(0))[::-1]
        given = np.arange(1, len(counts) + 1) * len(labels)
        return float((2 * np.cumsum(counts) / (given + counts.sum())).max())
    counted = labels[labels != IGNORED] if labels.ndim > 1 else labels
    return float(np.unique(counted, return_counts=True)[1].max() / counted.size) if counted.size else None


def score_info_of(metrics: Mapping[str, Any]) -> ScoreInfo:
    """The score of a run from its measures; those of older runs are of classifications.

    >>> score_info_of({"score": {"kind": "regression"}, "chance": 0.0}).name, score_info_of({}).name
    ('R2', 'accuracy')
    """
    stored, chance = metrics.get("score"), metrics.get("chance")
    kind = KINDS.get(str(stored.get("kind")), CLASSIFICATION) if isinstance(stored, Mapping) else CLASSIFICATION
    return ScoreInfo(kind, float(chance) if isinstance(chance, float | int) else None)
