"""Finding runs by a few words: `severe, deadline, acc>90`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fedfleet.app.dashboard.run_watcher import Glance
from fedfleet.core.errors import nearest

_COMPARISON = re.compile(r"(?P<key>[a-z_.]+)\s*(?P<sign>>=|<=|>|<|=)\s*(?P<value>\S+)", re.I)
# What can be compared with a number, in the units that the page shows.
_MEASURES: dict[str, Callable[[Glance], float | None]] = {
    "acc": lambda g: None if g.accuracy is None else 100 * g.accuracy,
    "accuracy": lambda g: None if g.accuracy is None else 100 * g.accuracy,
    "rounds": lambda g: float(g.rounds),
    "hours": lambda g: g.time / 3600,
    "seed": lambda g: float(g.seed),
    "clients": lambda g: float(g.clients),
}
_SIGNS: dict[str, Callable[[float, float], bool]] = {
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    "=": lambda a, b: a == b,
}


@dataclass(frozen=True, slots=True)
class Filtered:
    """The runs that match, and what could not be understood of the words, in a sentence."""

    runs: list[Glance]
    odd: str = ""


# What a list can be sorted by: (what the page calls it, how; None leaves the order of the watch: running ones, then the newest).
ORDERS: dict[str, tuple[str, Callable[[Glance], Any] | None]] = {
    "": ("newest first", None),
    "acc": ("most accurate first", lambda g: (g.accuracy is None, -(g.accuracy or 0.0))),
    "time": ("longest first", lambda g: -g.time),
    "name": ("by name", lambda g: g.name.lower()),
}


def filtered(runs: Iterable[Glance], words: str, by: str = "") -> Filtered:
    """The runs of which all the words hold, separated by commas or spaces, in one of the `ORDERS`.

    A word is part of a name, a state (`running`) or a value of the spec; `acc>90` compares a measure, `pace.seconds=300` a key.
    """
    tests: list[Callable[[Glance], bool]] = []
    odd: list[str] = []
    for word in re.split(r"[,\s]+", re.sub(r"\s*(>=|<=|>|<|=)\s*", r"\1", words.strip()[:200])):
        match = _COMPARISON.fullmatch(word)
        if not word:
            continue
        if match is None:
            tests.append(_named(word.lower()))
        else:
            test, said = _compared(match["key"], match["sign"], match["value"])
            tests.append(test)
            odd += [said] if said else []
    found = [run for run in runs if all(test(run) for test in tests)]
    order = ORDERS.get(by, ORDERS[""])[1]
    return Filtered(found if order is None else sorted(found, key=order), " ".join(odd))


def _named(word: str) -> Callable[[Glance], bool]:
    def holds(run: Glance) -> bool:
        return word in run.name.lower() or word == run.status or any(word in v.lower() for v in run.words.values())

    return holds


def _compared(key: str, sign: str, value: str) -> tuple[Callable[[Glance], bool], str]:
    if key.lower() not in _MEASURES:
        if sign == "=" and "." in key:
            return (lambda run: run.words.get(key) == value), ""
        return (lambda run: True), f"Nothing is called {key!r} here{nearest(key, _MEASURES)}"
    try:
        number = float(value.rstrip("%"))
    except ValueError:
        return (lambda run: True), f"{key} is compared with a number, not with {value!r}."
    measure, holds = _MEASURES[key.lower()], _SIGNS[sign]
    return (lambda run: (found := measure(run)) is not None and holds(found, number)), ""
