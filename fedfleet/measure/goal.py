"""What a run is to reach: a score, or a limit of another measure from above or from below, and when it got there.

A target is a number, which is a score, or a text such as "rmse <= 3.5".
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedfleet.core.kinds import SCORE_NAMES
from fedfleet.core.limits import read_target
from fedfleet.core.records import Floats, Ints
from fedfleet.measure.measure_info import OWN, measure_info
from fedfleet.measure.score_info import ScoreInfo

Target = float | str


def plain_target(target: Target) -> Target:
    """The same target, as a number if it asks for at least so much of the score.

    >>> plain_target("accuracy >= 0.8"), plain_target("rmse <= 3.5"), plain_target(0.5)
    (0.8, 'rmse <= 3.5', 0.5)
    """
    parsed = read_target(target) if isinstance(target, str) else None
    return parsed[2] if parsed is not None and parsed[0] in SCORE_NAMES and parsed[1] else target


def target_of(stop: Mapping[str, object]) -> Target | None:
    """The target that the [stop] table of a spec names, in whichever of its two keys.

    >>> target_of({"target_accuracy": 0.9}), target_of({"target": "rmse <= 60"}), target_of({})
    (0.9, 'rmse <= 60', None)
    """
    accuracy, text = stop.get("target_accuracy"), stop.get("target")
    if isinstance(accuracy, float | int) and not isinstance(accuracy, bool):
        return float(accuracy)
    return plain_target(text) if isinstance(text, str) else None


def evaluations_at(target: Target, accuracy: Floats, measures: Mapping[str, Floats]) -> Ints:
    """Which evaluations were at the target or better; of a measure that was not computed, none.

    >>> rmse = np.array([5.0, 3.4, np.nan, 3.6])
    >>> evaluations_at("rmse <= 3.5", np.zeros(4), {"rmse": rmse}).tolist(), evaluations_at(0.5, np.array([0.4, 0.5]), {}).tolist()
    ([1], [1])
    """
    if not isinstance(target, str):
        return np.flatnonzero(accuracy >= target)
    parsed = read_target(target)
    if parsed is None:
        return np.zeros(0, np.int64)
    name, at_least, limit = parsed
    values = accuracy if name in SCORE_NAMES else measures.get(name.removeprefix(OWN), np.full(len(accuracy), np.nan))
    return np.flatnonzero(values >= limit if at_least else values <= limit)


def target_text(target: Target, score: ScoreInfo) -> str:
    """A target in a sentence, behind "reached" or "time to".

    >>> from fedfleet.core.kinds import KINDS
    >>> target_text(0.83, ScoreInfo()), target_text("rmse <= 3.5", ScoreInfo(KINDS["regression"]))
    ('83.0 %', 'an RMSE of at most 3.5')
    >>> target_text(0.5, ScoreInfo(KINDS["regression"])), target_text("f1_macro >= 0.9", ScoreInfo(KINDS["multilabel"]))
    ('R2 0.500', 'a macro F1 of at least 90.0 %')
    """
    parsed = read_target(target) if isinstance(target, str) else None
    if parsed is None:
        return str(target) if isinstance(target, str) else score.named(target)
    name, at_least, limit = parsed
    info = measure_info(name, score)
    shown = info.text(limit) if info.percent or info.is_score else f"{limit:g}"
    return f"{article(info.label)} {info.label} of at {'least' if at_least else 'most'} {shown}"


# Names that are read letter by letter and begin with the sound of a vowel.
_SPELT_OUT = ("RMSE", "MAE", "R2", "F1")


def article(name: str) -> str:
    """The article before the name of a measure.

    >>> article("RMSE"), article("accuracy"), article("macro F1"), article("MAE"), article("AUROC")
    ('an', 'an', 'a', 'an', 'an')
    """
    return "an" if name in _SPELT_OUT or name[:1].lower() in "aei" else "a"
