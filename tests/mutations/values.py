"""Values that somebody might write, right and wrong."""

import datetime
import random
from typing import Any

from fedfleet.core.registry import parameters

FLOATS = [
    float("inf"),
    -float("inf"),
    float("nan"),
    0.0,
    -0.0,
    -1.0,
    1e308,
    -1e308,
    5e-324,
    1e-308,
    1e-12,
    1e15,
    1e16,
    0.5,
]
INTS = [0, -1, 1, 2, 3, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 2**127, 2**200, -(2**63), 10**9, 10**400]
TEXTS = [
    "",
    "x",
    "nan",
    "inf",
    "1e999",
    "none",
    "a\u0000b",
    "\u202eoops",
    "é" * 300,
    "../..",
    "/dev/null",
    "{}",
    "builtin",
    "y" * 5000,
]
ODD = [
    True,
    False,
    [],
    [[]],
    [1, 2, 3],
    {},
    {"use": "x"},
    {"a": {"b": {}}},
    datetime.date(2024, 2, 29),
    datetime.time(1, 2, 3),
]
EVERYTHING: list[Any] = [*FLOATS, *INTS, *TEXTS, *ODD]


def wrong_value(rng: random.Random) -> Any:
    """Anything at all."""
    return rng.choice(rng.choice([FLOATS, INTS, TEXTS, ODD]))


def near_limits(rng: random.Random, hint: Any) -> Any:
    """A value about where a number's limits lie; anything for other types."""
    limits = [getattr(m, k) for m in _metadata(hint) for k in ("ge", "gt", "le", "lt") if hasattr(m, k)]
    if not limits:
        return wrong_value(rng)
    limit = rng.choice(limits)
    step = rng.choice([0, 0, 1, -1])
    return limit + step if isinstance(limit, int) else rng.choice([limit, float(limit) * 2, float(limit) / 2])


def _metadata(hint: Any) -> list[Any]:
    result = list(getattr(hint, "__metadata__", ()))
    for inner in getattr(hint, "__args__", ()):
        result += _metadata(inner)
    return result


def hints_of(build: Any) -> dict[str, Any]:
    """The types of a builder's parameters."""
    return {name: hint for name, (hint, _) in parameters(build).items()}


def word_of(value: Any) -> str:
    """A value as somebody types it behind an option or an equals sign."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {word_of(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(word_of, value)) + "]"
    return str(value).replace("\u0000", "")
