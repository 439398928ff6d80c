"""Tables against signatures: the only schema of a part is its builder's own signature."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from fedfleet.core.codec import Codec
from fedfleet.core.errors import BadInput, suggest_name
from fedfleet.core.limits import SMALLEST
from fedfleet.core.part_facts import FleetFacts, RunFacts
from fedfleet.core.parts import Algorithm, Fold, Policy, Selector
from fedfleet.core.registry import builder, parameters
from fedfleet.learn.attacks import Attack
from fedfleet.learn.composition import method
from fedfleet.learn.differential_privacy import Privacy
from fedfleet.learn.features import with_features
from fedfleet.world.devices import DeviceRecipe
from fedfleet.world.energy import EnergyRecipe
from fedfleet.world.faults import FaultRecipe
from fedfleet.world.partitions import PartitionRecipe

Table = dict[str, Any]
# A parameter of one of these types is itself a part, given as a nested table.
NESTED: dict[Any, str] = {
    Algorithm: "algorithms", Fold: "folds", Policy: "policies", Selector: "selectors", DeviceRecipe: "devices",
    Codec: "codecs", Attack: "attacks", Privacy: "privacy", PartitionRecipe: "partitions", EnergyRecipe: "energy",
    FaultRecipe: "faults",
}  # fmt: skip
_PLAIN = ("world", "stop", "run", "seeds")  # tables that are no parts


class UnknownKey(BadInput):
    """A key that its table does not have. Whoever knows all tables can say where it belongs."""

    def __init__(self, where: str, key: str, value: Any, known: Sequence[str]) -> None:
        super().__init__(f"{where} has no key {key!r}{suggest_name(key, known)}")
        self.where, self.key, self.value, self.known = where, key, value, known


def resolve_part(kind: str, table: Mapping[str, Any], where: str, default: str | None = None) -> Table:
    """A part's table with its name and all of its parameters, checked; nested parts likewise."""
    name = table.get("use", default)
    if not isinstance(name, str):
        raise BadInput(f'{where}: choose the part with use = "NAME"')
    build = builder_of(kind, name, f"{where}.use")
    rest = {k: v for k, v in table.items() if k != "use"}
    return {"use": name, **check_table(build, rest, where, also=("use",))}


def builder_of(kind: str, name: str, where: str = "") -> Callable[..., Any]:
    """The builder that a spec's table of this kind is checked against: an algorithm's takes what may be put around any too."""
    build = builder(kind, name, where)
    return method(with_features, build) if kind == "algorithms" else build


def build_part(kind: str, table: Mapping[str, Any], provide: Mapping[Any, Any] | None = None) -> Any:
    """The part that a resolved table describes.

    `provide` holds, by type, arguments that a spec cannot express, for example a function that scores states.
    """
    build = builder_of(kind, table["use"])
    hints = parameters(build)
    provided = {name: provide[hint] for name, (hint, _) in hints.items() if provide and not is_spec_type(hint) and hint in provide}
    arguments = {k: v for k, v in table.items() if k != "use"}
    for key, value in arguments.items():
        inner = nested_kind(hints[key][0])
        if inner is not None and value is not None:
            many = isinstance(value, list | tuple)
            arguments[key] = [build_part(inner, v, provide) for v in value] if many else build_part(inner, value, provide)
    return build(**arguments, **provided)


def check_table(build: Callable[..., Any], table: Mapping[str, Any], where: str, *, also: tuple[str, ...] = ()) -> Table:
    """The table with every parameter of the builder, checked; what is left out takes the builder's default."""
    hints = parameters(build)
    spec_parameters = {n: v for n, v in hints.items() if is_spec_type(v[0])}
    for key in table:
        if key not in spec_parameters:
            raise UnknownKey(where, key, table[key], (*spec_parameters, *also))
    result: Table = {}
    for key, (hint, parameter) in spec_parameters.items():
        inner = nested_kind(hint)
        if key not in table:
            if parameter.default is inspect.Parameter.empty:
                raise BadInput(f"{where} needs the key {key!r}")
            result[key] = parameter.default
        elif table[key] is None and parameter.default is None:
            result[key] = None  # a part that was left out when the table was first resolved
        elif inner is not None:
            result[key] = _resolve_nested(inner, hint, table[key], f"{where}.{key}")
        else:
            result[key] = check_value(hint, as_list(hint, table[key]), f"{where}.{key}")
    return result


def as_list(hint: Any, value: Any) -> Any:
    """One word, number or table where only a list of them is wanted: the list of this one.

    >>> as_list(list[str], "phone"), as_list(list[str] | None, None), as_list(int | list[int], 3)
    (['phone'], None, 3)
    """
    kinds = [hint] if get_origin(hint) not in (Union, UnionType) else [a for a in get_args(hint) if a is not NoneType]
    origins = {get_origin(_plain_hint(kind)) for kind in kinds}
    if origins == {dict} and isinstance(value, Mapping):  # a list under each name
        return {name: as_list(get_args(_plain_hint(kinds[0]))[1], one) for name, one in value.items()}
    one = isinstance(value, str | int | float | Mapping) and not isinstance(value, bool)
    return [value] if origins == {list} and one else value


def _plain_hint(hint: Any) -> Any:
    """A hint without its limits."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def as_table(value: Any, where: str) -> Mapping[str, Any]:
    """A part's table; a bare name stands for it."""
    if isinstance(value, str):
        return {"use": value}
    if not isinstance(value, Mapping):
        key = where.rpartition(".")[2]
        cure = f"[{key}] with its keys below" if where in _PLAIN else f'{key} = {{ use = "NAME" }}'
        raise BadInput(f"{where}: {_short(value)} is not a table; write {cure}")
    return value


def _resolve_nested(kind: str, hint: Any, value: Any, where: str) -> Any:
    """A part that is another's parameter, or a list of such."""
    if not _is_list(hint):
        return resolve_part(kind, as_table(value, where), where)
    value = as_list(hint, value)
    if not isinstance(value, list | tuple):
        raise BadInput(f"{where}: {_short(value)} is not a list of {kind}; write [..]")
    return [resolve_part(kind, as_table(v, f"{where}[{i}]"), f"{where}[{i}]") for i, v in enumerate(value)]


def check_value(hint: Any, value: Any, where: str) -> Any:
    """The value if it has the type and limits of the hint; otherwise one sentence that says why not."""
    try:
        from pydantic import ConfigDict, TypeAdapter, ValidationError
    except ImportError:
        return _check_plainly(hint, value, where)
    try:
        checked_value = TypeAdapter(hint, config=ConfigDict(strict=True, arbitrary_types_allowed=True)).validate_python(value)
        return (
            checked_value + 0.0 if isinstance(checked_value, float) else checked_value
        )  # minus zero is zero, whatever numpy thinks of its sign
    except ValidationError as error:
        if isinstance(value, float) and value != value:  # NaN: every limit would be named as one that it misses
            raise BadInput(f"{where} = nan is not a number; write a number") from None
        # For an optional value, that it is not None helps nobody.
        errors = [e for e in error.errors() if e["type"] != "none_required"] or error.errors()
        first, *others = dict.fromkeys(e["msg"] for e in errors)
        message = _in_words(", or ".join([first, *(other.removeprefix("Input should be ") for other in others)]))
        if f"at least {SMALLEST:.12f}" in message:
            too_small = isinstance(value, float) and value > 0
            message = f"must be at least {SMALLEST:g}" if too_small else "must be greater than 0"
        elif isinstance(value, float):
            message = message.replace("must be an integer", "must be an integer, written without a point or an exponent")
        if isinstance(value, str) and re.fullmatch(r"[+-]?\d+,\d+", value) and "number" in message:
            message += f", with a decimal point: {value.replace(',', '.')}"
        if "is_target" in repr(hint) and isinstance(value, int | float) and not isinstance(value, bool):
            message = 'must name a measure and its limit, as in "accuracy >= 0.9"'
        raise BadInput(f"{where} = {_short(value)}: {message[0].lower()}{message[1:]}") from None


def _check_plainly(hint: Any, value: Any, where: str) -> Any:
    """The same where pydantic is not, as on a small device: it reads what a server checked already, and refuses what was not."""
    from fedfleet.app.spec.plain_values import Unfit, fit_value

    try:
        checked_value = fit_value(hint, value)
        return checked_value + 0.0 if isinstance(checked_value, float) else checked_value
    except Unfit as error:
        raise BadInput(f"{where} = {_short(value)}: must be {error}") from None


_WORDS = (
    ("Input should be ", "must be "),
    ("greater than or equal to", "at least"),
    ("less than or equal to", "at most"),
    ("Predicate 'is_target' failed", 'must name a measure and its limit, as in "rmse <= 3.5"'),
    ("a valid integer", "an integer"),
    ("a valid number", "a number"),
    ("a valid boolean", "true or false"),
    ("a valid string", "text"),
    ("a valid list", "a list [..]"),
)


def _in_words(message: str) -> str:
    """What pydantic says of a value, in the words of other refusals; large limits are grouped.

    >>> _in_words("Input should be less than or equal to 100000000")
    'must be at most 100,000,000'
    """
    for theirs, ours in _WORDS:
        message = message.replace(theirs, ours)
    return re.sub(r"(?<![\d.])\d{5,}(?![\d.])", lambda number: f"{int(number[0]):,}", message)


def is_spec_type(hint: Any) -> bool:
    """Can a value of this type be written in a spec? Parts can; other functions, such as a predicate over names, cannot."""
    return nested_kind(hint) is not None or (hint not in (RunFacts, FleetFacts) and "Callable" not in str(hint))


def nested_kind(hint: Any) -> str | None:
    """Of which kind the part is that a parameter of this type takes: the part itself, one or none, or a list of them."""
    if hint in NESTED:
        return NESTED[hint]
    inside = [a for a in get_args(hint) if a is not NoneType]
    wraps = _is_list(hint) or get_origin(hint) in (Union, UnionType)
    return nested_kind(inside[0]) if wraps and len(inside) == 1 else None


def _is_list(hint: Any) -> bool:
    if get_origin(hint) in (Union, UnionType):
        return any(_is_list(a) for a in get_args(hint))
    return get_origin(hint) is list


def _short(value: Any) -> str:
    """The value in a sentence; long ones are cut."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python prints no number of more than 4,300 digits
        return "a value too long to print"
    return text if len(text) <= 100 else f"{text[:80]}.."
