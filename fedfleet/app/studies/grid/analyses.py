"""What a study may ask of its runs: the kinds of analyses with their keys, and the names of quantities."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from fedfleet.app.spec.spec_record import TABLES
from fedfleet.app.spec.table_checks import check_table
from fedfleet.core.errors import BadInput, suggest_name
from fedfleet.core.limits import is_target
from fedfleet.measure.goal import Target, plain_target
from fedfleet.measure.measure_info import MEASURE_NAMES

Kind = Literal["table", "pearson", "spearman", "time_to_accuracy", "paired_test"]
# What an arm's row has besides the measures of a run.
DERIVED = ("accuracy_at_equal_time", "time_to_target", "bytes")
_NO_NUMBERS = ("warnings", "stopped_by", "curve", "pace_timelines")  # of summary, and not plain lists
_SHARE = re.compile(r"(?P<share>0?\.\d+|1(?:\.0+)?)\s+of\s+best\s+of\s+(?P<arm>.+)")


@dataclass(frozen=True, slots=True)
class Analysis:
    """One analysis that is asked for: its kind, its title, and its complete settings."""

    kind: Kind
    title: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ShareOfBest:
    """A target that the runs themselves give: a share of the best mean accuracy that an arm had."""

    share: float
    arm: str


def _table(
    *,
    columns: list[str] = ["accuracy", "virtual_seconds", "bytes_up", "bytes_down"],  # noqa: B006
    rows: str = "arm",
    across: str | None = None,
) -> None:
    """The mean and interval of quantities (columns) for every arm, or for every value of a spec key (rows). With `across`, a
    second key, the first column is shown for every pair of values."""


def _correlation(*, x: str, y: str = "accuracy", cluster: str | None = None) -> None:
    """How two quantities go together over the runs; whole clusters are drawn again: all runs of one fleet (seeds.fleet), or those
    that share what is named."""


def _time_to_accuracy(*, target: float | str | None = None) -> None:
    """When each arm reached a target, a score or a limit of a measure; runs that never did are counted as such."""


def _paired_test(*, metric: str = "accuracy", baseline: str | None = None) -> None:
    """Each arm against one of them on common seeds, corrected for the number of comparisons."""


_KEYS: dict[Kind, Callable[..., None]] = {
    "table": _table,
    "pearson": _correlation,
    "spearman": _correlation,
    "time_to_accuracy": _time_to_accuracy,
    "paired_test": _paired_test,
}


def check_analysis(table: Mapping[str, Any], where: str, arms: Sequence[str]) -> Analysis:
    """An analysis with every key filled in; `arms` are the names that it may refer to."""
    kinds: tuple[Kind, ...] = get_args(Kind)
    kind = table.get("kind")
    if kind not in kinds:
        problem = f"{where} needs kind = .." if kind is None else f"{where}.kind: there is no analysis {kind!r}"
        raise BadInput(f"{problem}{suggest_name(str(kind or ''), kinds)}")
    rest = {k: v for k, v in table.items() if k not in ("kind", "title")}
    result = check_table(_KEYS[kind], rest, where, also=("kind", "title"))
    for key in ("x", "y", "metric", "rows", "across", "cluster"):
        if result.get(key) is not None and result[key] != "arm":
            check_quantity(result[key], f"{where}.{key}", also=("arm",) if key == "rows" else ())
    for key in ("x", "y", "metric", "columns"):
        for name in result.get(key, ()) if key == "columns" else filter(None, [result.get(key)]):
            check_quantity(name, f"{where}.{key}")
            check_number(name, f"{where}.{key}")
    baseline = result.get("baseline")
    if baseline is not None and baseline not in arms:
        raise BadInput(f"{where}.baseline: {baseline!r} is not an arm of this study{suggest_name(baseline, arms)}")
    if "target" in result:
        check_target(result["target"], f"{where}.target", arms)
    title = table.get("title", "")
    if not isinstance(title, str):
        raise BadInput(f"{where}.title = {title!r} is not a text")
    return Analysis(kind, title, result)


def check_target(value: Any, where: str, arms: Sequence[str]) -> float | str | None:
    """A target as it was written, if it means something: a score, a limit of a measure, or a share of an arm's best score."""
    if value is None:
        return None
    if isinstance(value, float | int) and not isinstance(value, bool) and 0 < value <= 1:
        return float(value)
    if isinstance(value, str):
        target = parse_target(value)
        if is_target(value):
            return plain_target(value)
        if isinstance(target, ShareOfBest):
            if target.arm != "baseline" and target.arm not in arms:
                raise BadInput(
                    f"{where}: {target.arm!r} is not an arm of this study{suggest_name(target.arm, ('baseline', *arms))}"
                )
            return value
    raise BadInput(
        f'{where} = {value!r}: write an accuracy between 0 and 1 (or another score), a limit such as "rmse <= 3.5", or "0.95 of '
        'best of baseline"'
    )


def parse_target(value: float | str | None) -> Target | ShareOfBest | None:
    """What a target means.

    >>> parse_target("0.95 of best of baseline")
    ShareOfBest(share=0.95, arm='baseline')
    >>> parse_target("rmse <= 3.5")
    'rmse <= 3.5'
    """
    if not isinstance(value, str) or is_target(value):
        return value
    match = _SHARE.fullmatch(value.strip())
    return ShareOfBest(float(match["share"]), match["arm"]) if match else None


def check_quantity(name: str, where: str, *, also: Sequence[str] = ()) -> None:
    """Refuse a name that is neither a measure of a run, a key of its spec, nor a metric of its fleet."""
    from fedfleet.measure.montecarlo.metrics import NAMES
    from fedfleet.measure.summary import summary

    first, _, rest = name.partition(".")
    measures = (*summary([]), *DERIVED, *MEASURE_NAMES, *also)
    if first == "measure":
        if rest not in NAMES:
            raise BadInput(f"{where}: fleets have no metric {rest!r}{suggest_name(rest, NAMES)}")
        return
    known = first in measures or name == "seed" or (first in (*TABLES, "seeds", "own") and rest)
    if not known:
        keys = [f"{table}." for table in TABLES]
        raise BadInput(
            f"{where}: {name!r} is neither a measure of a run, nor a key of its spec, nor measures.NAME (a metric of the task or "
            f"of your own), nor measure.NAME{suggest_name(name, (*measures, *keys))}"
        )


def check_number(name: str, where: str) -> None:
    """Refuse a measure that is no number: a text, a list, or a table without the name of an entry. What is known only when
    runs have ended, such as the reasons why rounds failed, may be named."""
    from fedfleet.measure.summary import summary

    first, _, rest = name.partition(".")
    known = summary([])
    if first not in known:
        return
    result = known[first]
    if name == "measures":
        raise BadInput(f"{where}: measures has several values; choose one with measures.NAME, such as measures.rmse")
    if first in _NO_NUMBERS or isinstance(result, list):
        raise BadInput(f"{where}: {name!r} is not a number; name a measure that is a number, such as accuracy")
    if isinstance(result, Mapping) and result and rest not in _entries(result):
        raise BadInput(f"{where}: {first} has several values; choose one with {first}.NAME{suggest_name(rest, _entries(result))}")
    if isinstance(result, float | int) and rest:
        raise BadInput(f"{where}: {first!r} is a number and has no {rest!r}; write {first!r} alone")


def _entries(table: Mapping[str, Any], path: str = "") -> list[str]:
    """The names of the numbers in a measure that is a table."""
    result: list[str] = []
    for key, value in table.items():
        result += _entries(value, f"{path}{key}.") if isinstance(value, Mapping) and value else [f"{path}{key}"]
    return result
