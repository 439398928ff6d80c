"""Checking values from the command line, or of a Python call; a bad one is refused in one sentence."""

from __future__ import annotations

import math
import operator
from typing import Annotated, Any, Literal

from fedfleet.app.terminal.answers import option_name
from fedfleet.core.bounds import Ge, Le
from fedfleet.core.errors import BadInput, suggest_name
from fedfleet.core.limits import LARGEST, MAX_COUNT, SMALLEST

MOST_WORKERS, MOST_SEEDS, MOST_LOOKS = 256, 10_000, 100
Workers = Annotated[int, Ge(1), Le(MOST_WORKERS)]  # processes
Seeds = Annotated[int, Ge(1), Le(MOST_SEEDS)]  # simulations
Looks = Annotated[int, Ge(1), Le(MOST_LOOKS)]  # comparisons of the same arms, each with more seeds
AimName = Literal["accuracy", "time", "fairness", "bytes", "joules"]  # by what an arm is recommended


def one_of(option: str, value: str, allowed: tuple[str, ...]) -> Any:
    """The value if it is one of these words."""
    if value not in allowed:
        raise BadInput(f"{option_name(option)} {value!r} is not known{suggest_name(str(value), allowed)}")
    return value


def positive(option: str, value: float) -> float:
    """The value if it is a positive, finite number."""
    value = number(option, value)
    if not (math.isfinite(value) and SMALLEST <= value <= LARGEST):
        raise BadInput(f"{option_name(option)} {value:g} must be positive and finite, from {SMALLEST:g} to {LARGEST:g}")
    return value


def not_negative(option: str, value: float) -> float:
    """The value if it is finite and not negative."""
    value = number(option, value)
    if not 0 <= value <= LARGEST:
        raise BadInput(f"{option_name(option)} {value:g} must be from 0 to {LARGEST:g}")
    return value


def share(option: str, value: float) -> float:
    """The value if it lies in (0, 1]."""
    value = number(option, value)
    if not SMALLEST <= value <= 1:
        raise BadInput(f"{option_name(option)} {value:g} must be above 0 and at most 1")
    return value


def number(option: str, value: Any) -> float:
    """The value if it is a number, of Python or of numpy."""
    if isinstance(value, bool | str | bytes):
        raise BadInput(f"{option_name(option)} {value!r} is not a number")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise BadInput(f"{option_name(option)} {value!r} is not a number") from None


def positive_int(option: str, value: Any, most: int = MAX_COUNT) -> int:
    """How many of something, from 1 on; numpy's whole numbers are numbers too.

    >>> positive_int("--workers", 3)
    3
    """
    try:
        number_given = operator.index(value)
    except TypeError:
        number_given = 0
    if isinstance(value, bool) or not 1 <= number_given <= most:
        raise BadInput(f"{option_name(option)} = {value!r}: give a whole number from 1 to {most:,}")
    return number_given
