"""Comparison: what differs between runs, and what can be said of it."""

from fedfleet.app.studies.compare.comparison import answer_of, compare, comparison
from fedfleet.app.studies.compare.records import (
    Arm,
    ArmTargetTime,
    ComparedRun,
    Comparison,
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
