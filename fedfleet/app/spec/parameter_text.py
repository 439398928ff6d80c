"""A builder's parameters in words, for `fedfleet list`, help texts and the reference."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from fedfleet.app.spec.table_checks import nested_kind, sayable
from fedfleet.core.limits import LARGEST, MOST, SMALLEST
from fedfleet.core.registry import builder, names, parameters, summary
from fedfleet.learn.features import featured

GENERAL = (LARGEST, MOST, math.inf)  # limits of all numbers, which the reference states once


def listed_parts(kind: str) -> dict[str, Any]:
    """All parts of a kind; the answer of `fedfleet list`."""
    items: list[dict[str, Any]] = [
        {"name": name, "summary": summary(builder(kind, name)), "parameters": describe(builder(kind, name))}
        for name in names(kind)
    ]
    for item in items if kind == "tasks" else ():
        here = data_here(item["name"])
        item |= {} if here is None else {"data_here": here}
    return {"kind": kind, "items": items} | ({"around": around_any()} if kind == "algorithms" else {})


def around_any() -> dict[str, dict[str, Any]]:
    """What may be put around any algorithm, as keys of [algorithm] beside its own."""
    return {name: entry for name, entry in describe(featured).items() if name != "algorithm"}


def data_here(task: str) -> bool | None:
    """Are the data of a task on this machine? None where it does not say, as tasks of third parties need not."""
    build = builder("tasks", task)
    if any(p.default is inspect.Parameter.empty for _, p in parameters(build).values()):
        return None
    here = getattr(build(), "here", None)
    return None if here is None else bool(here())


def describe(build: Callable[..., Any]) -> dict[str, dict[str, Any]]:
    """The parameters of a builder for people and programs: type, default, whether it is required."""
    found: dict[str, dict[str, Any]] = {}
    for name, (hint, parameter) in parameters(build).items():
        if not sayable(hint):
            continue
        required = parameter.default is inspect.Parameter.empty
        kind = nested_kind(hint)
        entry: dict[str, Any] = {"type": f"a part of {kind}" if kind else readable(hint), "required": required}
        if not required:
            entry["default"] = parameter.default
        found[name] = entry
    return found


def readable(hint: Any) -> str:
    """A type with its limits in a few words: `float > 0`."""
    args = getattr(hint, "__args__", ())
    limits = getattr(hint, "__metadata__", ())
    if limits:
        signs = {"Gt": ("gt", ">"), "Ge": ("ge", ">="), "Lt": ("lt", "<"), "Le": ("le", "<=")}
        named = [(signs[type(m).__name__][1], getattr(m, signs[type(m).__name__][0])) for m in limits]
        said = " and ".join(f"{sign} {limit:.12g}" for sign, limit in named if limit not in GENERAL)
        said = said.replace(f">= {SMALLEST:g}", "> 0")
        return f"{readable(hint.__origin__)} {said}"
    if str(hint).startswith("typing.Literal"):
        return " or ".join(repr(a) for a in args)
    if args and (str(hint).startswith("typing.Optional") or "|" in str(hint) or "Union" in str(hint)):
        return " or ".join(readable(a) for a in args if a is not type(None))
    if args:
        return f"{hint.__origin__.__name__} of {', '.join(readable(a) for a in args)}"
    return getattr(hint, "__name__", str(hint))
