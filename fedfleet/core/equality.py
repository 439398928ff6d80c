"""Do two values mean the same, although each was built anew? Functions do if their code and what they hold are the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from types import FunctionType, MethodType
from typing import Any, cast

import numpy as np

from fedfleet.core.trees import Array


def same(a: Any, b: Any) -> bool:
    """Are two values the same, looked at from inside? What cannot be looked into counts by its own equality.

    >>> def adding(n):
    ...     return lambda x: x + n
    >>> adding(1) == adding(1), same(adding(1), adding(1)), same(adding(1), adding(2))
    (False, True, False)
    """
    return _same(a, b, set())


def _same(a: Any, b: Any, visiting: set[tuple[int, int]]) -> bool:
    if a is b or (id(a), id(b)) in visiting:  # a function may hold itself
        return True
    if type(a) is not type(b):
        return False
    visiting.add((id(a), id(b)))
    if isinstance(a, np.ndarray):
        x, y = cast("Array", a), cast("Array", b)
        return x.dtype == y.dtype and np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
    parts_a, parts_b = _components(a), _components(b)
    if parts_a is None or parts_b is None:
        return bool(a == b)
    return len(parts_a) == len(parts_b) and all(_same(x, y, visiting) for x, y in zip(parts_a, parts_b, strict=True))


def _components(value: Any) -> tuple[Any, ...] | None:
    """What a value is made of; None if it shows nothing."""
    if isinstance(value, list | tuple):
        return tuple(cast("tuple[Any, ...]", value))
    if isinstance(value, Mapping):
        return tuple(cast("Mapping[Any, Any]", value).items())
    if isinstance(value, FunctionType):
        held = tuple(cell.cell_contents for cell in value.__closure__ or ())
        return (value.__code__, *held, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
    if isinstance(value, MethodType):
        return value.__func__, value.__self__
    if isinstance(value, partial):
        return value.func, value.args, value.keywords
    if is_dataclass(value) and not isinstance(value, type):
        return tuple(getattr(value, field.name) for field in fields(value))
    return None
