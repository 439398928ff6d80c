"""Tables against signatures: the only schema of a part is its builder's own signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from fedfleet.core.errors import BadInput, nearest
from fedfleet.core.labels import RunFacts
from fedfleet.core.parts import Algorithm, Fold, Policy, Selector
from fedfleet.core.registry import builder, parameters
from fedfleet.world.devices import DeviceRecipe

Table = dict[str, Any]
# A parameter of one of these types is itself a part, given as a nested table.
NESTED: dict[Any, str] = {
    Algorithm: "algorithms", Fold: "folds", Policy: "policies", Selector: "selectors", DeviceRecipe: "devices",
}  # fmt: skip
_STRICT = ConfigDict(strict=True, arbitrary_types_allowed=True)


def resolve_part(kind: str, table: Mapping[str, Any], where: str, default: str | None = None) -> Table:
    """A part's table with its name and all of its parameters, checked; nested parts likewise."""
    name = table.get("use", default)
    if not isinstance(name, str):
        raise BadInput(f'{where}: say which part to use with use = "NAME"')
    build = builder(kind, name, f"{where}.use")
    rest = {k: v for k, v in table.items() if k != "use"}
    return {"use": name, **check_table(build, rest, where, also=("use",))}


def build_part(kind: str, table: Mapping[str, Any], provide: Mapping[Any, Any] | None = None) -> Any:
    """The part that a resolved table describes.

    `provide` holds, by type, arguments that a spec cannot express, for example a function that scores states.
    """
    build = builder(kind, table["use"])
    hints = parameters(build)
    brought = {
        name: provide[hint] for name, (hint, _) in hints.items() if provide and not sayable(hint) and hint in provide
    }
    given = {k: v for k, v in table.items() if k != "use"}
    for key, value in given.items():
        inner = NESTED.get(hints[key][0])
        if inner is not None:
            given[key] = build_part(inner, value, provide)
    return build(**given, **brought)


def check_table(
    build: Callable[..., Any], table: Mapping[str, Any], where: str, *, also: tuple[str, ...] = ()
) -> Table:
    """The table with every parameter of the builder, checked; what is left out takes the builder's default."""
    hints = parameters(build)
    spoken = {n: v for n, v in hints.items() if sayable(v[0])}
    for key in table:
        if key not in spoken:
            raise BadInput(f"{where} has no key {key!r}{nearest(key, (*spoken, *also))}")
    found: Table = {}
    for key, (hint, parameter) in spoken.items():
        inner = NESTED.get(hint)
        if key not in table:
            if parameter.default is inspect.Parameter.empty:
                raise BadInput(f"{where} needs the key {key!r}")
            found[key] = parameter.default
        elif inner is not None:
            nested = {"use": table[key]} if isinstance(table[key], str) else table[key]
            if not isinstance(nested, Mapping):
                raise BadInput(f'{where}.{key}: {nested!r} is not a table; write {key} = {{ use = "NAME" }}')
            found[key] = resolve_part(inner, nested, f"{where}.{key}")
        else:
            found[key] = check_value(hint, table[key], f"{where}.{key}")
    return found


def check_value(hint: Any, value: Any, where: str) -> Any:
    """The value if it has the type and limits of the hint; otherwise one sentence that says why not."""
    try:
        return TypeAdapter(hint, config=_STRICT).validate_python(value)
    except ValidationError as wrong:
        # For an optional value, that it is not None helps nobody.
        errors = [e for e in wrong.errors() if e["type"] != "none_required"] or wrong.errors()
        first, *others = dict.fromkeys(e["msg"] for e in errors)
        said = ", or ".join([first, *(other.removeprefix("Input should be ") for other in others)])
        raise BadInput(f"{where} = {value!r}: {said[0].lower()}{said[1:]}") from None


def sayable(hint: Any) -> bool:
    """Can a value of this type be written in a spec? Parts can; other functions, such as a predicate over names, cannot."""
    return hint in NESTED or (hint is not RunFacts and "Callable" not in str(hint))
