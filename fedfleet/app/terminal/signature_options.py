"""Options made from signatures: what a builder declares about its parameters is not declared again here."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import typer

from fedfleet.app.spec.parameter_text import type_text
from fedfleet.app.spec.table_checks import check_value
from fedfleet.app.terminal.lazy_commands import Verb
from fedfleet.core.errors import BadInput

# By name: the type of a parameter with its limits, and its entry in the signature.
Parameters = Mapping[str, tuple[Any, inspect.Parameter]]


def flag(name: str) -> str:
    """The option of a parameter.

    >>> flag("mean_mbps")
    '--mean-mbps'
    """
    return f"--{name.replace('_', '-')}"


def with_options(verb: Verb, parts: Mapping[str, Parameters], meaning: Mapping[str, str]) -> Verb:
    """The verb with an option for every parameter that one of the parts declares.

    The options take the place of the verb's argument `given`, a table of those that were set and of no others.
    """
    names = dict.fromkeys(name for declared in parts.values() for name in declared)
    added = [_option(name, parts, meaning[name]) for name in names]
    verb_parameters = inspect.signature(verb, eval_str=True).parameters.values()
    new_parameters = [option for p in verb_parameters for option in (added if p.name == "given" else [p])]

    def command(**values: Any) -> None:
        result = {name: values.pop(name) for name in names}
        verb(**values, given={name: value for name, value in result.items() if value is not None})

    command.__signature__ = inspect.Signature(new_parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in new_parameters}
    command.__doc__ = verb.__doc__
    return command


def check_options(
    options: Mapping[str, Any], part: str, declared: Parameters, *, ignored: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The given options if the part has them and their values are within its limits.

    The `ignored` ones may be given for every part, and are left out where a part does not have them.
    """
    result: dict[str, Any] = {}
    for name, value in options.items():
        if name in declared:
            if isinstance(value, float) and not math.isfinite(value):
                raise BadInput(f"{flag(name)} {value} must be finite")
            result[name] = check_value(declared[name][0], value, flag(name))
        elif name not in ignored:
            raise BadInput(f"{flag(name)} does not apply to {part}; it takes {', '.join(map(flag, declared))}")
    return result


def _option(name: str, parts: Mapping[str, Parameters], meaning: str) -> inspect.Parameter:
    owners = [part for part, declared in parts.items() if name in declared]
    hint, parameter = parts[owners[0]][name]
    details = [] if len(owners) == len(parts) else [", ".join(owners)]
    details += [type_text(hint), f"default {_default_text(parameter.default)}"]
    option = typer.Option(flag(name), help=f"{meaning} ({'; '.join(details)}).", show_default=False)
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=None, annotation=Annotated[_plain_type(hint) | None, option])


def _default_text(default: Any) -> str:
    if default is inspect.Parameter.empty:
        return "none, so it must be given"
    return f"{default:g}" if isinstance(default, float) else str(default)


def _plain_type(hint: Any) -> Any:
    """The type that the command line reads for a hint; limits and choices are checked afterwards.

    >>> _plain(Annotated[int, "at least 1"]), _plain(float | None)
    (<class 'int'>, <class 'float'>)
    """
    origin = get_origin(hint)
    if origin is Annotated:
        return _plain_type(get_args(hint)[0])
    if origin in (Union, UnionType):
        return _plain_type(next(a for a in get_args(hint) if a is not NoneType))
    return hint if hint in (bool, int, float) else str
