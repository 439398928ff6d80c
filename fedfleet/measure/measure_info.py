"""What a measure of an evaluation is called, how people read it, and whether less of it is better: RMSE, perplexity, the score."""

from __future__ import annotations

from dataclasses import dataclass

from fedfleet.core.kinds import KINDS, SCORE_NAMES
from fedfleet.measure.score_info import MINUS, ScoreInfo

OWN = "own."  # before the name of a person's own measure, where it could be taken for one of ours
_LABELS = {
    "mae": "MAE", "rmse": "RMSE", "f1_macro": "macro F1", "auroc": "AUROC", "exact_match": "exact match",
    "perplexity": "perplexity", "loss": "loss",
}  # fmt: skip
_PERCENT = frozenset({"f1_macro", "exact_match"})
_LOWER = frozenset(name for kind in KINDS.values() for name in kind.lower) | {"loss"}
_SCORES = {
    "best_accuracy": "best {}", "accuracy_clients": "{} on clients' own data", "accuracy_bottom10": "{} of the worst tenth",
    "accuracy_worst10_mean": "mean {} of the worst tenth", "accuracy_never": "{} for clients that never took part",
    "accuracy_took_part": "{} for clients that took part", "accuracy_unseen": "{} for people held out from training",
    "accuracy_at_equal_time": "{} at equal time", "accuracy_std": "spread of {} over clients",
}  # fmt: skip
_WHOLE = 1000.0  # a figure without a unit from here on has no decimals
MEASURE_NAMES = tuple(dict.fromkeys(name for kind in KINDS.values() for name in kind.measures))


@dataclass(frozen=True, slots=True)
class MeasureInfo:
    """One measure: the name that a spec and metrics.json use, its label in sentences, and how its values are read."""

    name: str
    label: str
    percent: bool = False
    lower: bool = False
    is_score: bool = False

    def text(self, value: float) -> str:
        """A value as people read it.

        >>> score = ScoreInfo(KINDS["regression"])
        >>> [measure_info(name, score).text(54.321) for name in ("rmse", "own.cost")]
        ['54.3', '54.3']
        >>> measure_info("accuracy", score).text(0.4123), measure_info("f1_macro", score).text(0.4123)
        ('0.412', '41.2 %')
        """
        if self.percent:
            return f"{100 * value:.1f} %".replace("-", MINUS)
        return f"{value:.3f}".replace("-", MINUS) if self.is_score else plain_number(value)

    def difference(self, value: float, *, sign: bool = True) -> str:
        """A difference of two values, in points where they are percentages.

        >>> measure_info("rmse", ScoreInfo()).difference(-3.21), measure_info("accuracy", ScoreInfo()).difference(0.041)
        ('−3.21', '+4.1 points')
        """
        plus = "+" if sign and value >= 0 else ""
        if self.percent:
            return f"{plus}{100 * value:.1f} points".replace("-", MINUS)
        return plus + (f"{value:.3f}".replace("-", MINUS) if self.is_score else plain_number(value))

    @property
    def unit_of_differences(self) -> str:
        """The word behind a difference; R2 and the label's own units have none."""
        return " points" if self.percent else ""


def plain_number(value: float) -> str:
    """A number without a unit, with three digits at least.

    >>> plain_number(0.05234), plain_number(54.321), plain_number(187.45), plain_number(23456.7), plain_number(-2.0)
    ('0.0523', '54.3', '187.4', '23,457', '−2.00')
    """
    size = abs(value)
    text = f"{value:,.0f}" if size >= _WHOLE else f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 1 else f"{value:.3g}"
    return text.replace("-", MINUS)


def measure_info(name: str, score: ScoreInfo) -> MeasureInfo:
    """The measure of this name in a run whose score is `score`.

    >>> measure_info("accuracy_bottom10", ScoreInfo(KINDS["regression"])).label, measure_info("own.recall", ScoreInfo()).label
    ('R2 of the worst tenth', 'recall')
    """
    if name in SCORE_NAMES:
        return MeasureInfo(name, score.name, score.kind.percent, is_score=True)
    if name in _SCORES:
        return MeasureInfo(name, _SCORES[name].format(score.name), score.kind.percent, name == "accuracy_std", is_score=True)
    return MeasureInfo(name, _LABELS.get(name, name.removeprefix(OWN)), name in _PERCENT, name.removeprefix(OWN) in _LOWER)


def main_measure(score: ScoreInfo) -> MeasureInfo | None:
    """The measure that charts show beside the score; classification has none."""
    return measure_info(score.kind.main, score) if score.kind.main else None
