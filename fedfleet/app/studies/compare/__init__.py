"""Comparison: what differs between runs, and what can be said of it."""

from fedfleet.app.studies.compare.comparison import Comparison, answer_of, compare, comparison
from fedfleet.app.studies.compare.records import (
    Arm,
    ArmTargetTime,
    ComparedRun,
    Moment,
    Pair,
    Standing,
    Verdict,
)

__all__ = [
    "Arm",
    "ArmTargetTime",
    "ComparedRun",
    "Comparison",
    "Moment",
    "Pair",
    "Standing",
    "Verdict",
    "answer_of",
    "compare",
    "comparison",
]  # fmt: skip
