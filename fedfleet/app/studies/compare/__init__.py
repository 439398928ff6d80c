"""Comparison: what differs between runs, and the verdict on them."""

from fedfleet.app.studies.compare.comparison import Comparison, answer_of, compare, comparison
from fedfleet.app.studies.compare.recommendation import recommend
from fedfleet.app.studies.compare.records import Arm, ArmTargetTime, ComparedRun, Moment, Pair, Recommendation, Standing, Verdict

__all__ = [
    "Arm",
    "ArmTargetTime",
    "ComparedRun",
    "Comparison",
    "Moment",
    "Pair",
    "Recommendation",
    "Standing",
    "Verdict",
    "answer_of",
    "compare",
    "comparison",
    "recommend",
]
