"""Checking values from the command line; a bad one is refused in one sentence."""

from __future__ import annotations

import math
from typing import Any

from fedfleet.core.errors import BadInput, nearest
from fedfleet.core.limits import LARGEST, SMALLEST


def one_of(option: str, value: str, allowed: tuple[str, ...]) -> Any:
    """The value if it is one of these words."""
    if value not in allowed:
        raise BadInput(f"{option} {value!r} is not known{nearest(value, allowed)}")
    return value


def positive(option: str, value: float) -> float:
    """The value if it is a positive, finite number."""
    if not (math.isfinite(value) and SMALLEST <= value <= LARGEST):
        raise BadInput(f"{option} {value:g} must be positive and finite, from {SMALLEST:g} to {LARGEST:g}")
    return value


def not_negative(option: str, value: float) -> float:
    """The value if it is finite and not negative."""
    if not 0 <= value <= LARGEST:
        raise BadInput(f"{option} {value:g} must not be negative, and at most {LARGEST:g}")
    return value


def share(option: str, value: float) -> float:
    """The value if it lies in (0, 1]."""
    if not SMALLEST <= value <= 1:
        raise BadInput(f"{option} {value:g} must be above 0 and at most 1")
    return value
