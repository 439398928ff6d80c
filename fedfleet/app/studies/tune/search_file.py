"""What a search may change: the table [tune] of a spec's file, or a file of its own with the same keys.

[tune]
metric = "accuracy"           # what is to be as good as possible: a measure of metrics.json, also time_to.0.8 or loss
trials = 20
seeds = [0, 1]                # a trial is a run with each; default: the seed of the spec
sampler = "tpe"               # or random, grid
pruner = "median"             # or halving, none: which trials are stopped early
[tune.space]                  # dotted keys of the spec, each with limits or with a list of values
"algorithm.lr" = { low = 0.001, high = 1.0, log = true }
"algorithm.batch" = [8, 16, 32]
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from fedfleet.app.runs.custom_task import CustomTask, Resolver, resolve_named_task
from fedfleet.app.spec import Spec, plain_table, read_table, set_values
from fedfleet.app.spec.resolution import TUNE
from fedfleet.app.studies.tune.aims import Aim, aim_of
from fedfleet.app.terminal.value_checks import positive_int
from fedfleet.core.errors import BadInput, suggest_name

Sampler = Literal["tpe", "random", "grid"]
Pruner = Literal["median", "halving", "none"]
SAMPLERS: tuple[Sampler, ...] = ("tpe", "random", "grid")
PRUNERS: tuple[Pruner, ...] = ("median", "halving", "none")
KEYS = ("metric", "direction", "trials", "seeds", "sampler", "pruner", "space")
_WHOLE = ("whole numbers",)  # in the identity of an axis, for 1 and 1.0 are equal and draw differently
_LIMITS = ("low", "high", "log", "step")
_MOST_TRIALS, _MOST_SEEDS, _MOST_POINTS = 100_000, 1000, 100_000
_NO_SPACE = (
    "there is nothing to search for; give in [tune.space] which keys may change and between which limits, for example "
    '"algorithm.lr" = { low = 0.001, high = 1.0, log = true }'
)


@dataclass(frozen=True, slots=True)
class Axis:
    """A key of the spec that may change: between limits, or to one of these `values`.

    `whole`: only whole numbers; `step`: only multiples of it above `low`.
    """

    key: str
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    step: float | None = None
    whole: bool = False
    values: tuple[Any, ...] = ()

    def points(self) -> list[Any]:
        """The values that a grid has of it."""
        if self.values:
            return list(self.values)
        if self.step is None:
            raise BadInput(
                f'tune.space: a grid needs to know which values "{self.key}" has; list them, or give a step, or use another sampler'
            )
        steps = range(math.floor((self.high - self.low) / self.step + 1e-9) + 1)
        result = [float(f"{self.low + i * self.step:.12g}") for i in steps]
        return [int(value) for value in result] if self.whole else result

    def contains(self, value: Any) -> bool:
        """Is this a value of the axis?"""
        if self.values:
            return value in self.values
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            return False
        steps = (value - self.low) / self.step if self.step else 0.0
        return abs(steps - round(steps)) < 1e-9 and (not self.whole or value == int(value))


@dataclass(frozen=True, slots=True)
class Search:
    """A search, checked as far as its files alone can be. `base` is the spec as it is written, `declared` its table [tune]."""

    name: str
    base: dict[str, Any]
    space: tuple[Axis, ...]
    aim: Aim
    seeds: tuple[int, ...]
    trials: int = 20
    sampler: Sampler = "tpe"
    pruner: Pruner = "median"
    declared: Mapping[str, Any] = field(default_factory=dict[str, Any])
    resolving: Resolver = field(default=resolve_named_task, repr=False, compare=False)  # with the own task where a person gave one

    def resolve_run(self, values: Mapping[str, Any], seed: int | None = None) -> tuple[Spec, CustomTask | None]:
        """The spec of a run with these values, and the own task; what cannot be is refused."""
        table = set_values(self.base, values)
        return self.resolving(table if seed is None else {**table, "seed": seed}, self.name)

    def spec(self, values: Mapping[str, Any], seed: int | None = None) -> Spec:
        """The spec alone."""
        return self.resolve_run(values, seed)[0]

    @property
    def own(self) -> bool:
        """Were model and data given in Python?"""
        return self.resolving is not resolve_named_task

    def defaults(self) -> dict[str, Any]:
        """What the spec itself has for each key; a key that it does not set at all is left out."""
        whole = self.spec({}).table()
        result = {axis.key: _value_at(whole, axis.key) for axis in self.space}
        return {key: value for key, value in result.items() if value is not None}

    def identity(self) -> dict[str, Any]:
        """What a search that goes on must have in common with the one that was begun."""
        axes = {a.key: list(a.values) or [a.low, a.high, a.log, a.step, *_WHOLE[: a.whole]] for a in self.space}
        return {
            "spec": self.spec({}).digest, "space": axes, "metric": self.aim.metric, "minimise": self.aim.minimise,
            "seeds": [*self.seeds],
        }  # fmt: skip


def search_of(table: Mapping[str, Any], name: str = "run", resolving: Resolver = resolve_named_task) -> Search:
    """The search that a table describes: a spec with a table `tune`. `resolving` makes specs of what the search tries."""
    base = {key: value for key, value in table.items() if key != TUNE}
    spec, _ = resolving(base, name)
    settings = table.get(TUNE, {})
    if not isinstance(settings, Mapping):
        raise BadInput(f"tune = {settings!r} is not a table; write [tune]")
    for key in settings:
        if key not in KEYS:
            hint = "; keys that may change go into [tune.space]" if "." in key else suggest_name(str(key), KEYS)
            raise BadInput(f"[tune] has no key {key!r}{hint}")
    axes = _space(settings.get("space"))
    result = Search(
        name,
        base,
        axes,
        aim_of(settings.get("metric", "accuracy"), settings.get("direction")),
        _seeds(settings.get("seeds"), spec.seed),
        check_trials(settings.get("trials", 20), "tune.trials"),
        cast("Sampler", check_choice(settings.get("sampler", "tpe"), SAMPLERS, "tune.sampler")),
        cast("Pruner", check_choice(settings.get("pruner", "median"), PRUNERS, "tune.pruner")),
        settings,
        resolving,
    )
    for axis in axes:
        _check_key(result, axis)
    return result


def check_trials(setting: Any, where: str) -> int:
    """How many trials; none is no search."""
    try:
        return positive_int(where, setting, _MOST_TRIALS)
    except BadInput:
        raise BadInput(f"{where} = {setting!r}: give a whole number of trials from 1 to {_MOST_TRIALS:,}") from None


def check_choice(setting: Any, known: Sequence[str], where: str) -> str:
    """One of the names that there are."""
    if setting not in known:
        raise BadInput(f"{where} = {setting!r} is not known{suggest_name(str(setting), known)}")
    return str(setting)


def grid_points(axes: Sequence[Axis]) -> list[dict[str, Any]]:
    """Every combination of the values that the axes have."""
    lists = [axis.points() for axis in axes]
    if math.prod(map(len, lists)) > _MOST_POINTS:
        raise BadInput(f"the grid has more than {_MOST_POINTS:,} points; take fewer values, or another sampler")
    return [dict(zip([a.key for a in axes], point, strict=True)) for point in itertools.product(*lists)]


def _space(setting: Any) -> tuple[Axis, ...]:
    if setting is None or setting == {}:
        raise BadInput(_NO_SPACE)
    if not isinstance(setting, Mapping):
        raise BadInput(f"tune.space = {setting!r} is not a table; write [tune.space]")
    return tuple(_axis(key, value) for key, value in _keys(setting).items())


def _keys(table: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Dotted keys, whether they were quoted or not: tables with a limit in them are what a key may be."""
    result: dict[str, Any] = {}
    for key, value in table.items():
        inner = isinstance(value, Mapping) and value and not any(limit in value for limit in _LIMITS)
        result |= _keys(cast("Mapping[str, Any]", value), f"{path}{key}.") if inner else {f"{path}{key}": value}
    return result


def _axis(key: str, setting: Any) -> Axis:
    where = f'tune.space."{key}"'
    if key.partition(".")[0] in ("seed", "seeds", "run"):
        meaning = "how to run" if key.startswith("run") else "which dice are thrown"
        raise BadInput(f"{where} sets {meaning}, not what is learnt, so a search cannot change it; leave it out")
    if isinstance(setting, list):
        if not setting or any(value in setting[:i] for i, value in enumerate(setting)):
            raise BadInput(f"{where} = {setting!r}: give a list of one or more different values")
        return Axis(key, values=tuple(setting))
    if not isinstance(setting, Mapping) or not {"low", "high"} <= setting.keys():
        raise BadInput(f"{where} = {setting!r}: write a list of values, or limits: {{ low = 0.001, high = 1.0, log = true }}")
    for name in setting:
        if name not in _LIMITS:
            raise BadInput(f"{where} has no key {name!r}{suggest_name(str(name), _LIMITS)}")
    return _between(key, setting, where)


def _between(key: str, limits: Mapping[str, Any], where: str) -> Axis:
    low, high, log, step = limits["low"], limits["high"], limits.get("log", False), limits.get("step")
    for number in (low, high, *([] if step is None else [step])):
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            raise BadInput(f"{where}: {number!r} is not a number")
    if not isinstance(log, bool):
        raise BadInput(f"{where}.log = {log!r}: write true or false")
    if not low < high:
        raise BadInput(f"{where}: low = {low} must be less than high = {high}")
    if log and (low <= 0 or step is not None):
        raise BadInput(f"{where}: with log = true, low must be more than 0, and step cannot be set")
    if step is not None and not 0 < step <= high - low:
        raise BadInput(f"{where}.step = {step}: must be more than 0 and at most high - low")
    whole = type(low) is int and type(high) is int and (step is None or type(step) is int)
    return Axis(key, low, high, log, step, whole)


def _check_key(search: Search, axis: Axis) -> None:
    """Refuse a key, or limits, that no spec of this search can have; other keys of the space may have to choose its part first."""
    first_error: BadInput | None = None
    parts = [a for a in search.space if a.key.endswith(".use") and axis.key.startswith(a.key.removesuffix("use"))]
    points = itertools.product(*(a.values for a in parts if a != axis))
    settings = [{}, *(dict(zip([a.key for a in parts if a != axis], point, strict=True)) for point in points)]
    for value in axis.values or (axis.low, axis.high):
        for setting in settings:
            try:
                search.spec({**setting, axis.key: int(value) if axis.whole else value}, search.seeds[0])
                break
            except BadInput as error:
                first_error = first_error or error
        else:
            raise BadInput(f'tune.space."{axis.key}": {first_error}')


def _seeds(setting: Any, spec_seed: int) -> tuple[int, ...]:
    if setting is None:
        return (spec_seed,)
    if type(setting) is int and 0 < setting <= _MOST_SEEDS:
        return tuple(range(setting))
    listed: list[Any] = list(setting) if isinstance(setting, list) else []
    if not listed or any(type(s) is not int or s < 0 for s in listed) or len({*listed}) < len(listed):
        raise BadInput(
            f"tune.seeds = {setting!r}: give the number of seeds, or a list of different whole numbers, for example [0, 1, 2]"
        )
    return tuple(listed)


def _value_at(table: Mapping[str, Any], key: str) -> Any:
    value: Any = table
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def load_search(
    table: Mapping[str, Any],
    name: str = "run",
    space: Any = None,
    *,
    trials: int | None = None,
    sampler: str | None = None,
    pruner: str | None = None,
    resolving: Resolver = resolve_named_task,
) -> Search:
    """The search of a spec's table, with what the command line or a Python call says instead.

    `space` is a file with the keys of [tune], at its top or in [tune]; or a table: the same, or the keys that may change alone.
    """
    if space is not None:
        table = {**table, TUNE: _tune_table(space, table.get(TUNE, {}))}
    result = search_of(table, name, resolving)
    if trials is not None:
        result = replace(result, trials=check_trials(trials, "--trials"))
    if sampler is not None:
        result = replace(result, sampler=cast("Sampler", check_choice(sampler, SAMPLERS, "--sampler")))
    if pruner is not None:
        result = replace(result, pruner=cast("Pruner", check_choice(pruner, PRUNERS, "--pruner")))
    return result


def _tune_table(space: Any, existing: Any) -> Any:
    """The table [tune] that stands apart from the spec; keys alone go into the spec's own."""
    if not isinstance(space, Mapping):
        if not isinstance(space, str | Path):
            raise BadInput(f"--space = {space!r}: give a file with [tune], or a table of the keys that may change")
        result = read_table(space)
        return result.get(TUNE, result)
    result = plain_table(cast("Mapping[Any, Any]", space), "space")
    if TUNE in result or "space" in result:
        return result.get(TUNE, result)
    return {**(cast("Mapping[str, Any]", existing) if isinstance(existing, Mapping) else {}), "space": result}
