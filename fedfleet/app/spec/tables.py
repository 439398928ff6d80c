"""Tables against signatures: the only schema of a part is its builder's own signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from fedfleet.core.errors import BadInput, nearest
from fedfleet.core.parts import Algorithm, Fold, Policy, Selector
from fedfleet.core.registry import builder, parameters
from fedfleet.world.devices import DeviceRecipe

Table = dict[str, Any]
# A parameter of one of these types is itself a part, given as a nested table.
_NESTED: dict[Any, str] = {
    Algorithm: "algorithms", Fold: "folds", Policy: "policies", Selector: "selectors", DeviceRecipe: "devices",
}  # fmt: skip
_STRICT = ConfigDict(strict=True, arbitrary_types_allowed=True)


def resolve_part(kind: str, table: Mapping[str, Any], where: str, default: str | None = None) -> Table:
    """A part's table with its name and all of its parameters, checked; nested parts likewise."""
    name = table.get("use", default)
    if not isinstance(name, str):
        raise BadInput(f'{where}: say which part with use = "name"')
    build = builder(kind, name, f"{where}.use")
    rest = {k: v for k, v in table.items() if k != "use"}
    return {"use": name, **check_table(build, rest, where, also=("use",))}


def build_part(kind: str, table: Mapping[str, Any], provide: Mapping[Any, Any] | None = None) -> Any:
    """The part that a resolved table describes; `provide` gives by type what no spec can say, such as a scorer of states."""
    build = builder(kind, table["use"])
    hints = parameters(build)
    brought = {
        name: provide[hint] for name, (hint, _) in hints.items() if provide and not _sayable(hint) and hint in provide
    }
    given = {k: v for k, v in table.items() if k != "use"}
    for key, value in given.items():
        inner = _NESTED.get(hints[key][0])
        if inner is not None:
            given[key] = build_part(inner, value, provide)
    return build(**given, **brought)


def check_table(
    build: Callable[..., Any], table: Mapping[str, Any], where: str, *, also: tuple[str, ...] = ()
) -> Table:
    """The table with every parameter of the builder, checked; what is left out takes the builder's default."""
    hints = parameters(build)
    spoken = {n: v for n, v in hints.items() if _sayable(v[0])}
    for key in table:
        if key not in spoken:
            raise BadInput(f"{where} has no key {key!r}{nearest(key, (*spoken, *also))}")
    found: Table = {}
    for key, (hint, parameter) in spoken.items():
        inner = _NESTED.get(hint)
        if key not in table:
            if parameter.default is inspect.Parameter.empty:
                raise BadInput(f"{where} needs the key {key!r}")
            found[key] = parameter.default
        elif inner is not None:
            nested = table[key]
            if not isinstance(nested, Mapping):
                raise BadInput(f"{where}.{key}: {nested!r} is not a table; write {key} = {{ use = .. }}")
            found[key] = resolve_part(inner, nested, f"{where}.{key}")
        else:
            found[key] = check_value(hint, table[key], f"{where}.{key}")
    return found


def check_value(hint: Any, value: Any, where: str) -> Any:
    """The value if it has the type and limits of the hint, else one sentence that says why not."""
    try:
        return TypeAdapter(hint, config=_STRICT).validate_python(value)
    except ValidationError as wrong:
        # Of a union, the branch that is None says nothing to a person.
        errors = [e for e in wrong.errors() if e["type"] != "none_required"] or wrong.errors()
        first, *others = dict.fromkeys(e["msg"] for e in errors)
        said = ", or ".join([first, *(other.removeprefix("Input should be ") for other in others)])
        raise BadInput(f"{where} = {value!r}: {said[0].lower()}{said[1:]}") from None


def _sayable(hint: Any) -> bool:
    """Can a spec say a value of this type? A part can; other functions, such as a predicate over names, cannot."""
    return hint in _NESTED or "Callable" not in str(hint)


def describe(build: Callable[..., Any]) -> dict[str, dict[str, Any]]:
    """The parameters of a builder for people and programs: type, default, whether it is required."""
    found: dict[str, dict[str, Any]] = {}
    for name, (hint, parameter) in parameters(build).items():
        if not _sayable(hint):
            continue
        required = parameter.default is inspect.Parameter.empty
        kind = _NESTED.get(hint)
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
        said = [f"{signs[type(m).__name__][1]} {getattr(m, signs[type(m).__name__][0])}" for m in limits]
        return f"{readable(hint.__origin__)} {' and '.join(said)}"
    if str(hint).startswith("typing.Literal"):
        return " or ".join(repr(a) for a in args)
    if args and (str(hint).startswith("typing.Optional") or "|" in str(hint) or "Union" in str(hint)):
        return " or ".join(readable(a) for a in args if a is not type(None))
    if args:
        return f"{hint.__origin__.__name__} of {', '.join(readable(a) for a in args)}"
    return getattr(hint, "__name__", str(hint))
