"""What the score of a run is called, how people read it, and what guessing would reach."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from fedfleet.core.kinds import CLASSIFICATION, IGNORED, KINDS, Kind
from fedfleet.core.trees import Array

MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True, slots=True)
class ScoreInfo:
    """The kind of a run's task, the chance level of its central test set, and how many samples that has, where they are known."""

    kind: Kind = CLASSIFICATION
    chance: float | None = None
    samples: int | None = None

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

    def brief(self, value: float | None) -> str:
        """A score on a page, as a whole percentage that says all only of all and none only of none; R2 keeps its digits.

        >>> ScoreInfo().brief(0.947), ScoreInfo().brief(0.998), ScoreInfo(KINDS["regression"]).brief(0.4123)
        ('95 %', 'over 99 %', '0.412')
        """
        if value is None:
            return "-"
        if not self.kind.percent:
            return self.text(value)
        return "under 1 %" if 0 < value <= 0.005 else "over 99 %" if 0.995 <= value < 1 else f"{100 * value:.0f} %"

    def named(self, value: float) -> str:
        """A score that nothing else names; only accuracy goes without its name.

        >>> ScoreInfo().named(0.5), ScoreInfo(KINDS["regression"]).named(0.5)
        ('50.0 %', 'R2 0.500')
        """
        return self.text(value) if self.counts_answers else f"{self.name} {self.text(value)}"

    @property
    def title(self) -> str:
        """The name of the score at the beginning of a sentence."""
        return self.name[:1].upper() + self.name[1:]

    @property
    def least(self) -> float:
        """The lowest score that there can be."""
        return 0.0 if self.kind.percent else -float("inf")

    @property
    def counts_answers(self) -> bool:
        """Whether the score is a share of right answers, each of which a sampling error can be computed from."""
        return self.kind.per_label

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


# A measure by which the kind of a task is known where only its journal is read.
_TELLING = {
    "rmse": "regression",
    "mae": "regression",
    "exact_match": "multilabel",
    "auroc": "multilabel",
    "perplexity": "next_token",
}


def kind_of_measures(names: Iterable[str]) -> Kind:
    """The kind of task whose evaluations have these measures; classification has none of its own.

    >>> kind_of_measures(["mae", "rmse"]).name, kind_of_measures([]).name, kind_of_measures(["f1_macro"]).name
    ('regression', 'classification', 'sequence_labels')
    """
    known = set(names)
    found = next((kind for name, kind in _TELLING.items() if name in known), "sequence_labels" if "f1_macro" in known else "")
    return KINDS.get(found, CLASSIFICATION)


def score_of_measures(names: Iterable[str]) -> ScoreInfo:
    """The score of a run of which only evaluations are known, by the measures that these have."""
    return ScoreInfo(kind_of_measures(names))


def kind_score(name: str) -> ScoreInfo:
    """The score of a kind of task by its name; that of classification for any other word.

    >>> kind_score("regression").name, kind_score("None").name
    ('R2', 'accuracy')
    """
    return ScoreInfo(KINDS.get(name, CLASSIFICATION))


def score_info_of(metrics: Mapping[str, Any]) -> ScoreInfo:
    """The score of a run from its measures; those of older runs are of classifications.

    >>> score_info_of({"score": {"kind": "regression"}, "chance": 0.0}).name, score_info_of({}).name
    ('R2', 'accuracy')
    """
    stored, chance, samples = metrics.get("score"), metrics.get("chance"), metrics.get("test_samples")
    table: Mapping[str, Any] = cast("Mapping[str, Any]", stored) if isinstance(stored, Mapping) else {}
    kind = KINDS.get(str(table.get("kind")), CLASSIFICATION)
    return ScoreInfo(
        kind, float(chance) if isinstance(chance, float | int) else None, samples if isinstance(samples, int) else None
    )
