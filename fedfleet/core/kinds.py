"""What a task asks of its model: a class, numbers, several labels at once, or an answer for every place of a sequence.

Every kind has one score that is the ratio of two integers, so that curves, targets, comparisons and audits treat all kinds alike:
`Score.correct / Score.total`. More of it is better, and what a model without knowledge reaches is its chance level. The type and
the shape of the labels show their kind, so that whatever has them needs no other word:

    classification     int64 [n]            a class
    regression         float32 [n, outputs] numbers
    multilabel         bool [n, labels]     which labels apply
    next_token,        int64 [n, places]    a class for every place of a sequence, IGNORED where nothing counts
    sequence_labels
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

KindName = Literal["classification", "regression", "multilabel", "next_token", "sequence_labels"]
KIND_NAMES: tuple[str, ...] = get_args(KindName)

UNIT = 1_000_000  # one sample's share of a score that is no count: millionths
LOWEST = -1000 * UNIT  # no model is worse than that: it bounds what a diverged model adds to a sum
# Names under which a target finds the score itself, whatever the kind of task calls it.
SCORE_NAMES = frozenset({"accuracy", "score", "r2", "R2", "f1", "F1", "token_accuracy"})
IGNORED = -100  # the label of a place in a sequence that counts for nothing, as padding does


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of task.

    `score` is what its ratio of integers is called, `percent` whether people read it as a percentage; `measures` are the names of
    what else is computed at each evaluation, in the order of reports, and `lower` those of which less is better; `main` is the one
    of them that charts show beside the score. `per_label`: a label is a class, of which there are `Dataset.classes`. `places`: a
    sample has one label for every place of a sequence.
    """

    name: KindName
    score: str
    percent: bool
    measures: tuple[str, ...] = ()
    lower: tuple[str, ...] = ()
    main: str = ""
    per_label: bool = False
    places: bool = False


CLASSIFICATION = Kind("classification", "accuracy", percent=True, per_label=True)
REGRESSION = Kind("regression", "R2", percent=False, measures=("mae", "rmse"), lower=("mae", "rmse"), main="rmse")
MULTILABEL = Kind("multilabel", "F1", percent=True, measures=("f1_macro", "auroc", "exact_match"), main="f1_macro")
NEXT_TOKEN = Kind(
    "next_token", "token accuracy", percent=True, measures=("perplexity",), lower=("perplexity",), main="perplexity", places=True
)
SEQUENCE_LABELS = Kind("sequence_labels", "token accuracy", percent=True, measures=("f1_macro",), main="f1_macro", places=True)
KINDS: dict[str, Kind] = {k.name: k for k in (CLASSIFICATION, REGRESSION, MULTILABEL, NEXT_TOKEN, SEQUENCE_LABELS)}


def score_range(kind: Kind, label_shape: tuple[int, ...]) -> tuple[int, int]:
    """The least that one sample can add to `Score.correct`, and the most that it can add to `Score.total`; `label_shape` is that of
    one sample's label.

    >>> score_range(CLASSIFICATION, ()), score_range(REGRESSION, (2,)), score_range(MULTILABEL, (5,))
    ((0, 1), (-2000000000, 2000000), (0, 10))
    """
    width = label_shape[0] if label_shape else 1
    match kind.name:
        case "classification":
            return 0, 1
        case "regression":
            return LOWEST * width, UNIT * width
        case "multilabel":  # a label that is found counts twice
            return 0, 2 * width
        case "next_token" | "sequence_labels":
            return 0, width
