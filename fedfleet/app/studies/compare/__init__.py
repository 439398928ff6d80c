"""Comparison: what differs between runs, and what can be said of it."""

from fedfleet.app.studies.compare.comparison import answer_of, compare, comparison
from fedfleet.app.studies.compare.records import Arm, Compared, Comparison, Moment, Pair, Standing, Timed, Verdict

__all__ = [
    "Arm", "Compared", "Comparison", "Moment", "Pair", "Standing", "Timed", "Verdict", "answer_of", "compare", "comparison",
]  # fmt: skip
