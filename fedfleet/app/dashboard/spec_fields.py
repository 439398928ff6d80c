"""The fields of a spec, read from the signatures that check it: what each takes, its default, its limits and its choices."""

from __future__ import annotations

import inspect
import json
import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from fedfleet.app.spec.parameter_text import data_available, type_text
from fedfleet.app.spec.resolution import PART_KINDS, run_settings, world_settings
from fedfleet.app.spec.table_checks import builder_of, is_spec_type, nested_kind
from fedfleet.core.limits import MAX_SEED, SMALLEST
from fedfleet.core.records import Stop
from fedfleet.core.registry import builder, names, parameters, summary

NUMBER, YES_NO, CHOICE, PART, PARTS, TEXT = "number", "yes or no", "choice", "part", "parts", "text"
# The tables that are no parts, each with the signature that is its schema.
PLAIN_TABLES: Mapping[str, Callable[..., Any]] = {"world": world_settings, "stop": Stop, "run": run_settings}
SEED = "seed"
_NOT_HERE = ("run.ray_address", "run.ray_execute")  # of a cluster, which this page may not use


@dataclass(frozen=True, slots=True)
class SpecField:
    """One key of a spec. `low` and `high` are limits that the value may reach; `part_kind` is of a part, or of a list of parts."""

    key: str
    input: str
    type: str
    required: bool = False
    default: Any = None
    choices: tuple[Any, ...] = ()
    low: float = -math.inf
    high: float = math.inf
    whole: bool = False
    part_kind: str = ""
    is_word: bool = False

    @property
    def name(self) -> str:
        """The last word of the key."""
        return self.key.rpartition(".")[2]

    def value_of(self, text: str) -> Any:
        """The value that a text stands for; what has no such meaning stays text, for the check of the spec to refuse."""
        if self.input == YES_NO:
            return {"true": True, "false": False}.get(text, text)
        if self.input == CHOICE:
            return next((choice for choice in self.choices if str(choice) == text), text)
        if self.input == NUMBER:
            try:
                return int(text) if self.whole else float(text)
            except ValueError:
                pass
        if self.is_word:
            return text
        try:
            return tomllib.loads(f"v = {text}")["v"]
        except (ValueError, KeyError, RecursionError):
            return text

    def text_of(self, value: Any) -> str:
        """The text of a value, which `value_of` reads back."""
        return value if isinstance(value, str) else _inline(value)


def _inline(value: Any) -> str:
    """A value as TOML in one line.

    >>> _inline([8, 1.5, True]), _inline({"near": [1, 2]}), _inline(60.0)
    ('[8, 1.5, true]', '{ "near" = [1, 2] }', '60')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(str(name))} = {_inline(inner)}" for name, inner in value.items()) + " }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_inline, value))}]"
    return json.dumps(value)


def plain_fields(table: str) -> list[SpecField]:
    """The fields of a table that is no part."""
    fields = _fields(PLAIN_TABLES[table], table)
    return [field for field in fields if field.key not in _NOT_HERE]


def seed_field() -> SpecField:
    """The field of the seed."""
    return SpecField(SEED, NUMBER, "int >= 0", default=0, low=0, high=MAX_SEED, whole=True)


def part_fields(kind: str, name: str, key: str) -> list[SpecField]:
    """The fields of this part, its own first; BadInput if there is no such part."""
    own = list(parameters(builder(kind, name, f"{key}.use")))
    fields = _fields(builder_of(kind, name, f"{key}.use"), key)
    return sorted(fields, key=lambda field: own.index(field.name) if field.name in own else len(own))


def own_field_count(kind: str, name: str) -> int:
    """How many of a part's fields are its own; the others may be put around any part of its kind."""
    return sum(is_spec_type(hint) for hint, _ in parameters(builder(kind, name)).values())


def part_choices(kind: str) -> list[tuple[str, str]]:
    """The parts of a kind, each with a sentence; of tasks also whether their data are missing here."""
    missing = {name for name in names(kind) if data_available(name) is False} if kind == "tasks" else set[str]()
    return [(name, f"{_summary(kind, name)}{' (data not here)' if name in missing else ''}") for name in names(kind)]


@cache
def _summary(kind: str, name: str) -> str:
    return summary(builder(kind, name))


def _fields(build: Callable[..., Any], table: str) -> list[SpecField]:
    found = parameters(build).items()
    return [_field(f"{table}.{name}", hint, parameter) for name, (hint, parameter) in found if _is_field(f"{table}.{name}", hint)]


def _is_field(key: str, hint: Any) -> bool:
    return is_spec_type(hint) and key not in PART_KINDS


def _field(key: str, hint: Any, parameter: inspect.Parameter) -> SpecField:
    required = parameter.default is inspect.Parameter.empty
    default = None if required else parameter.default
    kind = nested_kind(hint)
    if kind is not None:
        is_list = any(get_origin(one) is list for one in (hint, *get_args(hint)))
        return SpecField(key, PARTS if is_list else PART, f"a part of {kind}", required, default, part_kind=kind)
    words, inner = type_text(hint), _without_none(hint)
    if inner is bool:
        return SpecField(key, YES_NO, words, required, default)
    if get_origin(inner) is Literal:
        return SpecField(key, CHOICE, words, required, default, choices=get_args(inner))
    limits: Sequence[Any] = inner.__metadata__ if get_origin(inner) is Annotated else ()
    base = inner.__origin__ if get_origin(inner) is Annotated else inner
    if base in (int, float):
        low, high = _limits(limits)
        return SpecField(key, NUMBER, words, required, default, low=low, high=high, whole=base is int)
    return SpecField(key, TEXT, words, required, default, is_word=base is str)


def _without_none(hint: Any) -> Any:
    """The type of an optional value; a union of several types is none that a menu could show."""
    if get_origin(hint) in (Union, UnionType):
        inner = [one for one in get_args(hint) if one is not NoneType]
        return inner[0] if len(inner) == 1 else None
    return hint


def _limits(limits: Sequence[Any]) -> tuple[float, float]:
    """The lowest and the highest value; that one of them may not be reached itself is left to the check of the spec."""
    low, high = -math.inf, math.inf
    for limit in limits:
        low = max(low, getattr(limit, "ge", -math.inf), getattr(limit, "gt", -math.inf))
        high = min(high, getattr(limit, "le", math.inf), getattr(limit, "lt", math.inf))
    return (0.0 if low == SMALLEST else low), high
