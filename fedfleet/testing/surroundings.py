"""The surroundings of a call: global random generators and clocks, as another process at another time would have them."""

from __future__ import annotations

import datetime
import functools
import time
import types
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from fedfleet.learn.global_generators import generator_states, restore_generators, seed_generators

_CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "process_time_ns")
_CALENDAR = ("localtime", "gmtime")
# Seconds from one surrounding to the next: another second, minute, hour, weekday and month, whatever small number one divides by.
_STEP = 41 * 86400 + 5 * 3600 + 7 * 60 + 13
# Their functions need no look: they read no clock, or not for what they return.
_FOREIGN = ("fedfleet", "numpy", "torch", "scipy", "builtins")

T = TypeVar("T")


class Surroundings:
    """Places to call a part in: `with around(1): ..`. Generators and clocks are as before when it ends.

    Clocks are replaced in the module `time`, in `datetime`, and wherever functions of the part hold one by a name of their own.
    """

    def __init__(self, *parts: Any) -> None:
        self.spaces = _spaces_of(parts)

    @contextmanager
    def __call__(self, number: int, *, leaves_generators: str = "") -> Generator[None]:
        """Surroundings of this number. `leaves_generators` names a function that must not use the global generators at all."""
        before = generator_states()
        seed_generators(number)
        seeded = generator_states() if leaves_generators else {}
        replaced = _replace_clocks(self.spaces, number * _STEP)
        try:
            yield
            used = [n for n, state in generator_states().items() if leaves_generators and n in seeded and state != seeded[n]]
        finally:
            for space, name, value in reversed(replaced):
                space[name] = value
            restore_generators(before)
        assert not used, (
            f"{leaves_generators} must not use or seed the global generator of {used[0]}: a run shares it with all else; draw "
            "from core.rng.stream(seed, label, ids) or hash_keys"
        )


def turns(items: Iterable[T], most: int = 7) -> Iterator[tuple[int, list[T]]]:
    """The items in at most so many groups, each with the number of other surroundings: all days of the week, if there are seven."""
    rows = list(items)
    size = max(1, -(-len(rows) // most))
    for number, a in enumerate(range(0, len(rows), size), start=2):
        yield number, rows[a : a + size]


# ---- clocks -------------------------------------------------------------------------------------------------------

_Replaced = list[tuple[dict[str, Any], str, Any]]


def _replace_clocks(spaces: list[dict[str, Any]], offset: int) -> _Replaced:
    """Replace every clock; what was there, so that it can be put back."""
    other = _other_clocks(offset)
    replaced: _Replaced = []
    modules: list[tuple[Any, list[str]]] = [
        (vars(time), [*_CLOCKS, *_CALENDAR]),
        (vars(datetime), ["datetime", "date"]),
    ]
    for space, names in modules:
        replaced += [(space, name, space[name]) for name in names]
    for space in spaces:
        replaced += [(space, name, value) for name, value in space.items() if id(value) in other]
    for space, name, value in replaced:
        space[name] = other[id(value)]
    return replaced


def _other_clocks(offset: int) -> dict[int, Any]:
    """What stands for each clock, by its identity."""
    result: dict[int, Any] = {}
    for name in _CLOCKS:
        real = getattr(time, name)
        result[id(real)] = functools.partial(_late_clock, real, offset * 10**9 if name.endswith("_ns") else offset)
    for name in _CALENDAR:
        real = getattr(time, name)
        result[id(real)] = functools.partial(_late_calendar, real, time.time, offset)
    for real in (datetime.datetime, datetime.date):
        result[id(real)] = _late_class(real, datetime.timedelta(seconds=offset))
    return result


def _late_clock(real: Callable[[], Any], offset: int) -> Any:
    return real() + offset


def _late_calendar(real: Callable[..., Any], now: Callable[[], float], offset: int, seconds: float | None = None) -> Any:
    return real(now() + offset if seconds is None else seconds)


def _late_class(real: Any, offset: datetime.timedelta) -> Any:
    """A class that stands for `datetime` or `date`: dates made before are instances of it, too."""

    class Kind(type):
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, real)

    names = [n for n in ("now", "utcnow", "today") if hasattr(real, n)]
    own = {n: staticmethod(functools.partial(_late_date, getattr(real, n), offset)) for n in names}
    return Kind(real.__name__, (real,), {**own, "__slots__": ()})


def _late_date(real: Callable[..., Any], offset: datetime.timedelta, *zone: Any, **options: Any) -> Any:
    return real(*zone, **options) + offset


# ---- where a part's functions look names up -------------------------------------------------------------------------


def _spaces_of(parts: tuple[Any, ...]) -> list[dict[str, Any]]:
    """The global names of every function that is part of these parts, or is called by one of the same module."""
    spaces: dict[int, dict[str, Any]] = {}
    seen: set[int] = set()
    waiting: list[Any] = list(parts)
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, types.FunctionType):
            waiting += [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
            if not value.__module__ or value.__module__.partition(".")[0] in _FOREIGN:
                continue
            space = value.__globals__
            spaces[id(space)] = space
            waiting += [space[name] for name in _names_in(value.__code__) if isinstance(space.get(name), types.FunctionType)]
        elif isinstance(value, functools.partial):
            waiting += [value.func, *value.args, *value.keywords.values()]  # pyright: ignore[reportUnknownMemberType]
        elif isinstance(value, types.MethodType):
            waiting += [value.__func__, value.__self__]
        elif is_dataclass(value) and not isinstance(value, type):
            waiting += [getattr(value, field.name) for field in fields(value)]
        elif isinstance(value, Mapping):
            waiting += list(value.values())  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(value, list | tuple) and len(value) < 1000:  # pyright: ignore[reportUnknownArgumentType]
            waiting += list(value)  # pyright: ignore[reportUnknownArgumentType]
    return list(spaces.values())


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - reading an empty cell raises
    except ValueError:
        return False
    return True


def _names_in(code: types.CodeType) -> list[str]:
    """The names that a function looks up, and those of functions inside it."""
    inside = [name for part in code.co_consts if isinstance(part, types.CodeType) for name in _names_in(part)]
    return [*code.co_names, *inside]
