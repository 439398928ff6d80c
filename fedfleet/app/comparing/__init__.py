"""Comparison: what differs between runs, and what can be said of it."""

from fedfleet.app.comparing.answering import answer_of, compare, comparison
from fedfleet.app.comparing.record import Arm, Compared, Comparison, Moment, Pair, Standing, Timed, Verdict

__all__ = [
    "Arm", "Compared", "Comparison", "Moment", "Pair", "Standing", "Timed", "Verdict", "answer_of", "compare", "comparison",
]  # fmt: skip
