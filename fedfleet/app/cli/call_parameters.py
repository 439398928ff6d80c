"""The parameters of a call that a command line can give: what a call declares is not declared again for options.

A parameter's type, its limits (see fedfleet.core.limits) and its default come from the signature; its help from the Args section of
the docstring, or from a text in `Annotated`. What an entry says after "in Python also" is for Python only.
"""

from __future__ import annotations

import builtins
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from fedfleet.core.bounds import Ge, Le

_READABLE = (Path, str, float, int, bool)  # from the one that fits most values down: of `str | Path` a path is read
_ONLY_PYTHON = re.compile(r"[;,.] in Python also .*$", re.IGNORECASE)
_ENTRY = re.compile(r"^([a-z_0-9]+(?:, [a-z_0-9]+)*): (.*)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CallParameter:
    """A parameter of a call that the command line can give."""

    name: str
    kind: type  # of one value
    several: bool  # it takes any number of values
    minimum: float | None
    maximum: float | None
    default: Any
    help: str
    is_rest: bool = False  # *overrides


def read_call(call: Callable[..., Any]) -> list[CallParameter]:
    """The parameters that a command line can give; those that only Python can, such as a model, are left out."""
    helps = argument_help(inspect.getdoc(call) or "")
    result = list[CallParameter]()
    for name, parameter in inspect.signature(call).parameters.items():
        hint = _evaluate_annotation(parameter.annotation, call)
        is_rest = parameter.kind is inspect.Parameter.VAR_POSITIONAL
        kind, several, limits, text = _read_hint(hint)
        if kind is not None:
            minimum: Any = next((limit.ge for limit in limits if isinstance(limit, Ge)), None)
            maximum: Any = next((limit.le for limit in limits if isinstance(limit, Le)), None)
            help_text = text or helps.get(name, "")
            result.append(
                CallParameter(
                    name,
                    kind,
                    several or is_rest,
                    minimum,
                    maximum,
                    parameter.default,
                    help_text,
                    is_rest,  # type: ignore[arg-type]
                )
            )
    return result


def argument_help(docstring: str) -> dict[str, str]:
    """The help of each parameter, from the Args section.

    >>> argument_help("Measure.\\n\\nArgs:\\n    seeds: how many\\n        simulations.\\n    model, data: your own.")["seeds"]
    'How many simulations.'
    """
    _, _, section = docstring.partition("\nArgs:\n")
    section = section.partition("\n\n")[0]
    entries = re.split(r"\n(?=    \S)", section)
    result = dict[str, str]()
    for entry in entries:
        match = _ENTRY.match(" ".join(entry.split()))
        if match is not None:
            plain = _ONLY_PYTHON.sub(".", match[2]).replace("`", "")
            # a text that starts with a value keeps it as it is typed
            text = plain if match[2].startswith("`") or re.match(r"\w+:", plain) else f"{plain[:1].upper()}{plain[1:]}"
            result |= dict.fromkeys(match[1].split(", "), text)
    return result


def flags_of(parameters: Sequence[CallParameter], written: Mapping[str, str]) -> dict[str, str]:
    """How each parameter is called on the command line."""
    return {p.name: written.get(p.name, flag(p)).split()[0] for p in parameters}


def flag(parameter: CallParameter) -> str:
    """The option of a parameter; of one that is on by default, the option that switches it off.

    >>> flag(CallParameter("mean_mbps", float, False, None, None, 1.0, ""))
    '--mean-mbps'
    """
    negative = "no-" if parameter.default is True else ""
    return f"--{negative}{parameter.name.replace('_', '-')}"


def split_arguments(call: Callable[..., Any], values: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Values from the command line as positional and keyword arguments of the call; what was not given is left to its default."""
    parameters = inspect.signature(call).parameters
    has_rest = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters.values())
    positional, keywords = list[Any](), dict[str, Any]()
    for name, p in parameters.items():
        if name not in values:
            continue
        value: Any = (not values[name]) if p.default is True else values[name]
        if p.kind is inspect.Parameter.VAR_POSITIONAL:
            positional += value or []
        elif has_rest and p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            positional.append(value)
        elif value is not None:
            keywords[name] = value
    return positional, keywords


class _Names(dict[str, Any]):
    """The names that an annotation may use; one that is imported for type checkers only is nothing that a command line can give."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, Any)


def _evaluate_annotation(annotation: Any, call: Callable[..., Any]) -> Any:
    if not isinstance(annotation, str):
        return annotation
    return eval(annotation, {}, _Names(inspect.unwrap(call).__globals__))


def _read_hint(hint: Any) -> tuple[type | None, bool, list[Any], str]:
    """Of a hint: the type of one value (None: no command line can give it), whether it takes several, limits, and help."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        kind, several, limits, text = _read_hint(arguments[0])
        texts = [one for one in arguments[1:] if isinstance(one, str)]
        return kind, several, [*limits, *arguments[1:]], texts[0] if texts else text
    if origin is Literal:
        return str, False, [], ""
    if origin in (Union, UnionType):
        read = [_read_hint(one) for one in arguments if one is not NoneType]
        known = [one for one in read if one[0] is not None]
        return min(known, key=lambda one: _READABLE.index(one[0]), default=(None, False, [], ""))
    if isinstance(origin, type) and issubclass(origin, Iterable) and not issubclass(origin, Mapping) and arguments:
        kind, _, limits, text = _read_hint(arguments[0])
        return kind, True, limits, text
    return (hint if hint in _READABLE else None), False, [], ""
