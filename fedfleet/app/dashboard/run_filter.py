"""Finding runs by a few words: `severe, deadline, acc>90`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from operator import eq, ge, gt, le, lt
from typing import Any

from fedfleet.app.dashboard.run_watcher import RunSummary
from fedfleet.core.errors import suggest_name

_COMPARISON = re.compile(r"(?P<key>[a-z_.]+)\s*(?P<sign>>=|<=|>|<|=)\s*(?P<value>\S+)", re.I)
# What can be compared with a number, in the units that the page shows.
_MEASURES: dict[str, Callable[[RunSummary], float | None]] = {
    "acc": lambda g: None if g.accuracy is None else 100 * g.accuracy,
    "accuracy": lambda g: None if g.accuracy is None else 100 * g.accuracy,
    "rounds": lambda g: float(g.rounds),
    "hours": lambda g: g.time / 3600,
    "seed": lambda g: float(g.seed),
    "clients": lambda g: float(g.clients),
}
_SIGNS: dict[str, Callable[[float, float], bool]] = {">": gt, "<": lt, ">=": ge, "<=": le, "=": eq}


@dataclass(frozen=True, slots=True)
class FilterResult:
    """The runs that match, and what could not be understood of the words, in a sentence."""

    runs: list[RunSummary]
    problem: str = ""


# What a list can be sorted by: (what the page calls it, how; None leaves the order of the watch: running ones, then the newest).
ORDERS: dict[str, tuple[str, Callable[[RunSummary], Any] | None]] = {
    "": ("newest first", None),
    "acc": ("most accurate first", lambda g: (g.accuracy is None, -(g.accuracy or 0.0))),
    "time": ("longest first", lambda g: -g.time),
    "name": ("by name", lambda g: g.name.lower()),
}


def filter_runs(runs: Iterable[RunSummary], words: str, by: str = "") -> FilterResult:
    """The runs of which all the words hold, separated by commas or spaces, in one of the `ORDERS`.

    A word is part of a name, a state (`running`) or a value of the spec; `acc>90` compares a measure, `pace.seconds=300` a key.
    """
    tests: list[Callable[[RunSummary], bool]] = []
    problems: list[str] = []
    for word in re.split(r"[,\s]+", re.sub(r"\s*(>=|<=|>|<|=)\s*", r"\1", words.strip()[:200])):
        match = _COMPARISON.fullmatch(word)
        if not word:
            continue
        if match is None:
            tests.append(partial(_has_word, word.lower()))
        else:
            test, problem = _comparison_test(match["key"], match["sign"], match["value"])
            tests.append(test)
            problems += [problem] if problem else []
    matches = [run for run in runs if all(test(run) for test in tests)]
    order = ORDERS.get(by, ORDERS[""])[1]
    return FilterResult(matches if order is None else sorted(matches, key=order), " ".join(problems))


def _has_word(word: str, run: RunSummary) -> bool:
    return word in run.name.lower() or word == run.status or any(word in v.lower() for v in run.spec_values.values())


def _comparison_test(key: str, sign: str, value: str) -> tuple[Callable[[RunSummary], bool], str]:
    if key.lower() not in _MEASURES:
        if sign == "=" and "." in key:
            return (lambda run: run.spec_values.get(key) == value), ""
        return (lambda run: True), f"Nothing is called {key!r} here{suggest_name(key, _MEASURES)}"
    try:
        number = float(value.rstrip("%"))
    except ValueError:
        return (lambda run: True), f"{key} is compared with a number, not with {value!r}."
    measure, holds = _MEASURES[key.lower()], _SIGNS[sign]
    return (lambda run: (found := measure(run)) is not None and holds(found, number)), ""
