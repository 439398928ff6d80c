"""A builder's parameters in words, for `fedfleet list`, help texts and the reference."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from fedfleet.app.spec.table_checks import is_spec_type, nested_kind
from fedfleet.core.limits import LARGEST, MAX_COUNT, SMALLEST
from fedfleet.core.registry import builder, names, parameters, summary
from fedfleet.learn.features import with_features

GENERAL_LIMITS = (LARGEST, MAX_COUNT, math.inf)  # limits of all numbers, which the reference states once


def describe_parts(kind: str) -> dict[str, Any]:
    """All parts of a kind; the answer of `fedfleet list`."""
    items: list[dict[str, Any]] = [
        {"name": name, "summary": summary(builder(kind, name)), "parameters": describe(builder(kind, name))} for name in names(kind)
    ]
    for item in items if kind == "tasks" else ():
        available = data_available(item["name"])
        item |= {} if available is None else {"data_here": available}
    return {"kind": kind, "items": items} | ({"around": wrapper_parameters()} if kind == "algorithms" else {})


def wrapper_parameters() -> dict[str, dict[str, Any]]:
    """What may be put around any algorithm, as keys of [algorithm] beside its own."""
    return {name: entry for name, entry in describe(with_features).items() if name != "algorithm"}


def data_available(task: str) -> bool | None:
    """Are the data of a task on this machine? None where it does not say, as tasks of third parties need not."""
    build = builder("tasks", task)
    if any(p.default is inspect.Parameter.empty for _, p in parameters(build).values()):
        return None
    here = getattr(build(), "here", None)
    return None if here is None else bool(here())


def describe(build: Callable[..., Any]) -> dict[str, dict[str, Any]]:
    """The parameters of a builder for people and programs: type, default, whether it is required."""
    result: dict[str, dict[str, Any]] = {}
    for name, (hint, parameter) in parameters(build).items():
        if not is_spec_type(hint):
            continue
        required = parameter.default is inspect.Parameter.empty
        kind = nested_kind(hint)
        entry: dict[str, Any] = {"type": f"a part of {kind}" if kind else type_text(hint), "required": required}
        if not required:
            entry["default"] = parameter.default
        result[name] = entry
    return result


def type_text(hint: Any) -> str:
    """A type with its limits in a few words: `float > 0`."""
    args = getattr(hint, "__args__", ())
    limits = getattr(hint, "__metadata__", ())
    if limits:
        signs = {"Gt": ("gt", ">"), "Ge": ("ge", ">="), "Lt": ("lt", "<"), "Le": ("le", "<=")}
        # Other limits, such as the form of a target, have no sign.
        bounds = [(signs[k][1], getattr(m, signs[k][0])) for m in limits if (k := type(m).__name__) in signs]
        text = " and ".join(f"{sign} {limit:.12g}" for sign, limit in bounds if limit not in GENERAL_LIMITS)
        text = text.replace(f">= {SMALLEST:g}", "> 0")
        return f"{type_text(hint.__origin__)} {text}"
    if str(hint).startswith("typing.Literal"):
        return " or ".join(repr(a) for a in args)
    if args and (str(hint).startswith("typing.Optional") or "|" in str(hint) or "Union" in str(hint)):
        return " or ".join(type_text(a) for a in args if a is not type(None))
    if args:
        return f"{hint.__origin__.__name__} of {', '.join(type_text(a) for a in args)}"
    return getattr(hint, "__name__", str(hint))


def parts_text(answer: dict[str, Any]) -> str:
    """Parts with their parameters, one block per part."""
    if not answer["items"]:
        return f"there are no {answer['kind']} yet"
    blocks = []
    for item in answer["items"]:
        lines = [f"{item['name']}: {item['summary']}"]
        if not item.get("data_here", True):
            lines[0] += " (data not here)"
        blocks += [*lines, *_parameter_lines(item["parameters"])]
    if "around" in answer:
        blocks += ["around any of them, as further keys of [algorithm]:", *_parameter_lines(answer["around"])]
    return "\n".join(blocks)


def _parameter_lines(parameters: dict[str, Any]) -> list[str]:
    """Parameters, a line each."""
    defaults = {n: "required" if p["required"] else f"default {p['default']}" for n, p in parameters.items()}
    return [f"    {name:<16} {p['type']:<36} {defaults[name]}" for name, p in parameters.items()]
