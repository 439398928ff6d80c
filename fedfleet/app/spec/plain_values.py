"""Values against types and limits without pydantic, for devices that have none: what it takes, and what it makes of it.

Only the types that a spec can hold are known: numbers, words, lists, tables, and the alternatives between them.
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from fedfleet.core.bounds import Ge, Gt, Le, Lt, MinLen, Predicate

_WORDS = {bool: "true or false", int: "an integer", float: "a number", str: "text", NoneType: "left out"}


class Unfit(ValueError):
    """A value that has not the type or is not within the limits; the text says what it must be."""


def fit_value(hint: Any, value: Any) -> Any:
    """The value as its type has it (a whole number where a number is wanted becomes one); `Unfit` if it is none.

    >>> fit_value(Annotated[float, Ge(0)], 2), fit_value(list[int] | None, None), fit_value(Literal["a", "b"], "b")
    (2.0, None, 'b')
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin is Annotated:
        result = fit_value(arguments[0], value)
        for limit in arguments[1:]:
            _check_limit(limit, result)
        return result
    if origin in (Union, UnionType):
        return _fit_to_one(arguments, value)
    if origin is Literal:
        # True equals 1, and is none of the words.
        if not any(type(value) is type(word) and value == word for word in arguments):
            raise Unfit(f"one of {', '.join(repr(word) for word in arguments)}")
        return value
    if origin is list:
        if not isinstance(value, list):
            raise Unfit("a list [..]")
        return [fit_value(arguments[0], one) for one in value]
    if origin is dict:
        if not isinstance(value, dict):
            raise Unfit("a table")
        return {fit_value(arguments[0], name): fit_value(arguments[1], one) for name, one in value.items()}
    return _fit_to_plain_type(NoneType if hint is None else hint, value)


def _fit_to_one(hints: tuple[Any, ...], value: Any) -> Any:
    wanted: list[str] = []
    for hint in hints:
        try:
            return fit_value(hint, value)
        except Unfit as error:
            if hint is not NoneType:
                wanted.append(str(error))
    raise Unfit(", or ".join(dict.fromkeys(wanted)))


def _fit_to_plain_type(kind: Any, value: Any) -> Any:
    if kind is float and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise Unfit("a number") from None
    if type(value) is not kind:
        raise Unfit(_WORDS.get(kind, getattr(kind, "__name__", str(kind))))
    return value


def _check_limit(limit: Any, value: Any) -> None:
    # Not a number is within no limits, so each comparison is asked for what it wants.
    match limit:
        case Ge():
            wanted = None if value >= limit.ge else f"at least {limit.ge}"
        case Gt():
            wanted = None if value > limit.gt else f"greater than {limit.gt}"
        case Le():
            wanted = None if value <= limit.le else f"at most {limit.le}"
        case Lt():
            wanted = None if value < limit.lt else f"less than {limit.lt}"
        case MinLen():
            wanted = None if len(value) >= limit.min_length else f"a list of at least {limit.min_length}"
        case Predicate():
            wanted = None if limit.func(value) else f"what {getattr(limit.func, '__name__', 'the run')} takes"
        case _:
            return
    if wanted is not None:
        raise Unfit(wanted)
