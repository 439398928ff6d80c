"""What a study may ask of its runs: the kinds of analyses with their keys, and the names of quantities."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from fedfleet.app.spec.spec_record import TABLES
from fedfleet.app.spec.table_checks import check_table
from fedfleet.core.errors import BadInput, nearest

Kind = Literal["table", "pearson", "spearman", "time_to_accuracy", "paired_test"]
# What an arm's row has beside the measures of a run.
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
    """When each arm reached an accuracy; runs that never did are counted as such."""


def _paired_test(*, metric: str = "accuracy", baseline: str | None = None) -> None:
    """Each arm against one of them on common seeds, corrected for the number of comparisons."""


_KEYS: dict[Kind, Callable[..., None]] = {
    "table": _table,
    "pearson": _correlation,
    "spearman": _correlation,
    "time_to_accuracy": _time_to_accuracy,
    "paired_test": _paired_test,
}


def checked_analysis(given: Mapping[str, Any], where: str, arms: Sequence[str]) -> Analysis:
    """An analysis with every key filled in; `arms` are the names that it may refer to."""
    kinds: tuple[Kind, ...] = get_args(Kind)
    kind = given.get("kind")
    if kind not in kinds:
        said = f"{where} needs kind = .." if kind is None else f"{where}.kind: there is no analysis {kind!r}"
        raise BadInput(f"{said}{nearest(str(kind or ''), kinds)}")
    rest = {k: v for k, v in given.items() if k not in ("kind", "title")}
    found = check_table(_KEYS[kind], rest, where, also=("kind", "title"))
    for key in ("x", "y", "metric", "rows", "across", "cluster"):
        if found.get(key) is not None and found[key] != "arm":
            check_quantity(found[key], f"{where}.{key}", also=("arm",) if key == "rows" else ())
    for key in ("x", "y", "metric", "columns"):
        for name in found.get(key, ()) if key == "columns" else filter(None, [found.get(key)]):
            check_quantity(name, f"{where}.{key}")
            check_number(name, f"{where}.{key}")
    baseline = found.get("baseline")
    if baseline is not None and baseline not in arms:
        raise BadInput(f"{where}.baseline: {baseline!r} is no arm of this study{nearest(baseline, arms)}")
    if "target" in found:
        checked_target(found["target"], f"{where}.target", arms)
    title = given.get("title", "")
    if not isinstance(title, str):
        raise BadInput(f"{where}.title = {title!r} is not a text")
    return Analysis(kind, title, found)


def checked_target(given: Any, where: str, arms: Sequence[str]) -> float | str | None:
    """A target accuracy as it was written, if it means something."""
    if given is None:
        return None
    if isinstance(given, float | int) and not isinstance(given, bool) and 0 < given <= 1:
        return float(given)
    if isinstance(given, str):
        asked = target_of(given)
        if isinstance(asked, ShareOfBest):
            if asked.arm != "baseline" and asked.arm not in arms:
                raise BadInput(
                    f"{where}: {asked.arm!r} is no arm of this study{nearest(asked.arm, ('baseline', *arms))}"
                )
            return given
    raise BadInput(f'{where} = {given!r}: write an accuracy between 0 and 1, or "0.95 of best of baseline"')


def target_of(given: float | str | None) -> float | ShareOfBest | None:
    """What a target means.

    >>> target_of("0.95 of best of baseline")
    ShareOfBest(share=0.95, arm='baseline')
    """
    if not isinstance(given, str):
        return given
    found = _SHARE.fullmatch(given.strip())
    return ShareOfBest(float(found["share"]), found["arm"]) if found else None


def check_quantity(name: str, where: str, *, also: Sequence[str] = ()) -> None:
    """Refuse a name that is neither a measure of a run, a key of its spec, nor a metric of its fleet."""
    from fedfleet.measure.montecarlo.metrics import NAMES
    from fedfleet.measure.summary import summary

    first, _, rest = name.partition(".")
    measures = (*summary([]), *DERIVED, *also)
    if first == "measure":
        if rest not in NAMES:
            raise BadInput(f"{where}: fleets have no metric {rest!r}{nearest(rest, NAMES)}")
        return
    known = first in measures or name == "seed" or (first in (*TABLES, "seeds") and rest)
    if not known:
        keys = [f"{table}." for table in TABLES]
        raise BadInput(
            f"{where}: {name!r} is no measure of a run, no key of its spec, and no measure.NAME{nearest(name, (*measures, *keys))}"
        )


def check_number(name: str, where: str) -> None:
    """Refuse a measure that is no number: a text, a list, or a table of which nobody said which entry. What is known only when
    runs have ended, such as the reasons why rounds failed, may be named."""
    from fedfleet.measure.summary import summary

    first, _, rest = name.partition(".")
    known = summary([])
    if first not in known:
        return
    found = known[first]
    if first in _NO_NUMBERS or isinstance(found, list):
        raise BadInput(f"{where}: {name!r} is no number of a run; name a measure that is one, such as accuracy")
    if isinstance(found, Mapping) and found and rest not in _entries(found):
        raise BadInput(f"{where}: say which of {first}, as in {first}.NAME{nearest(rest, _entries(found))}")
    if isinstance(found, float | int) and rest:
        raise BadInput(f"{where}: {first!r} is a number and has no {rest!r}; write {first!r} alone")


def _entries(table: Mapping[str, Any], path: str = "") -> list[str]:
    """The names of the numbers in a measure that is a table."""
    found: list[str] = []
    for key, value in table.items():
        found += _entries(value, f"{path}{key}.") if isinstance(value, Mapping) and value else [f"{path}{key}"]
    return found
