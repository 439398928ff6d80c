"""Limits of values in signatures (`Annotated[int, Ge(1)]`): those of annotated_types, which pydantic reads.

A device may have neither package; then these are plain records of the same names, which `fedfleet.app.spec.plain_values` reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from annotated_types import Ge, Gt, Le, Lt, MinLen, Predicate
else:
    try:
        from annotated_types import Ge, Gt, Le, Lt, MinLen, Predicate
    except ImportError:

        @dataclass(frozen=True, slots=True)
        class Ge:
            """At least."""

            ge: Any

        @dataclass(frozen=True, slots=True)
        class Gt:
            """Greater than."""

            gt: Any

        @dataclass(frozen=True, slots=True)
        class Le:
            """At most."""

            le: Any

        @dataclass(frozen=True, slots=True)
        class Lt:
            """Less than."""

            lt: Any

        @dataclass(frozen=True, slots=True)
        class MinLen:
            """So many entries at least."""

            min_length: int

        @dataclass(frozen=True, slots=True)
        class Predicate:
            """A value for which the function is true."""

            func: Callable[[Any], bool]


__all__ = ["Ge", "Gt", "Le", "Lt", "MinLen", "Predicate"]
