"""Small specs that the form of a new run can begin with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ExampleSpec:
    """A spec with the sentence that says what it is an example of."""

    title: str
    table: Mapping[str, Any]


_PHONES = {
    "clients": 100,
    "devices": {"use": "spread", "link": 1.5},
    "states": {"use": "daily", "ready": 0.3, "sessions": 24},
    "data": {"use": "dirichlet", "alpha": 0.3},
}
_DIGITS = {"use": "digits_mlp"}

EXAMPLES: Mapping[str, ExampleSpec] = {
    "ideal": ExampleSpec(
        "an ideal fleet: equal devices, always reachable, equal data",
        {"task": _DIGITS, "world": {"clients": 100}, "pace": {"use": "readiness", "cohort": 10}, "stop": {"rounds": 60}},
    ),
    "deadline": ExampleSpec(
        "phones that are seldom reachable, and rounds with a deadline",
        {
            "task": _DIGITS,
            "world": _PHONES,
            "pace": {"use": "deadline", "cohort": 10, "seconds": 60.0, "if_few": "wait"},
            "stop": {"rounds": 80},
        },
    ),
    "buffered": ExampleSpec(
        "the same phones, asynchronous: every 10 reports make a model",
        {
            "task": _DIGITS,
            "world": _PHONES,
            "algorithm": {"use": "fedbuff"},
            "pace": {"use": "buffered", "k": 10, "concurrency": 20},
            "stop": {"commits": 80, "rounds": 200},
        },
    ),
    "small": ExampleSpec(
        "reports as 8-bit integers, packed: a quarter of the bytes",
        {
            "task": _DIGITS,
            "world": _PHONES,
            "algorithm": {"use": "fedavg", "up": [{"use": "int8"}, {"use": "gzip"}]},
            "pace": {"use": "readiness", "cohort": 10, "if_few": "wait"},
            "stop": {"rounds": 60},
        },
    ),
}
