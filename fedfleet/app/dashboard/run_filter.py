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
from fedfleet.measure.measure_info import MEASURE_NAMES

_COMPARISON = re.compile(r"(?P<key>[a-z_.]+)\s*(?P<sign>>=|<=|>|<|=)\s*(?P<value>\S+)", re.I)
# What can be compared with a number, in the units that the page shows.
_MEASURES: dict[str, Callable[[RunSummary], float | None]] = {
    "acc": lambda g: _score(g),
    "accuracy": lambda g: _score(g),
    "score": lambda g: _score(g),
    **{name: partial(lambda name, g: g.scores[-1].measures.get(name) if g.scores else None, name) for name in MEASURE_NAMES},
    "rounds": lambda g: float(g.rounds),
    "hours": lambda g: g.time / 3600,
    "seed": lambda g: float(g.seed),
    "clients": lambda g: float(g.clients),
}


def _score(run: RunSummary) -> float | None:
    """The score in the unit that the page shows: per cent, but R2 as a number."""
    return None if run.accuracy is None else 100 * run.accuracy if run.score.kind.percent else run.accuracy


# Short names of keys of a spec, as people look for them.
_KEYS = {
    "task": "task.use", "method": "algorithm.use", "algorithm": "algorithm.use", "selector": "choose.use", "policy": "pace.use",
    "devices": "world.devices.use", "states": "world.states.use", "data": "world.data.use",
}  # fmt: skip
_DIGEST = re.compile(r"[0-9a-f]{6,64}")
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


def filter_runs(
    runs: Iterable[RunSummary], words: str, by: str = "", label: Callable[[RunSummary], str] = lambda run: ""
) -> FilterResult:
    """The runs of which all the words hold, separated by commas or spaces, in one of the `ORDERS`.

    A word is part of a name or of the `label` of a run, a state (`running`), the beginning of a value of the spec or of a digest;
    `acc>90` compares the score, `rmse<60` another measure, `method=fedprox` or `pace.seconds=300` a key.
    """
    tests: list[Callable[[RunSummary], bool]] = []
    problems: list[str] = []
    for word in re.split(r"[,\s]+", re.sub(r"\s*(>=|<=|>|<|=)\s*", r"\1", words.strip()[:200])):
        match = _COMPARISON.fullmatch(word)
        if not word:
            continue
        if match is None:
            tests.append(partial(_has_word, word.lower(), label))
        else:
            test, problem = _comparison_test(match["key"], match["sign"], match["value"])
            tests.append(test)
            problems += [problem] if problem else []
    matches = [run for run in runs if all(test(run) for test in tests)]
    order = ORDERS.get(by, ORDERS[""])[1]
    return FilterResult(matches if order is None else sorted(matches, key=order), " ".join(problems))


def _has_word(word: str, label: Callable[[RunSummary], str], run: RunSummary) -> bool:
    return (
        word in run.name.lower()
        or word == run.status
        or word in label(run).lower()
        or any(value.lower().startswith(word) for value in run.spec_values.values())
        or (_DIGEST.fullmatch(word) is not None and any(digest.startswith(word) for digest in run.digests))
    )


def _comparison_test(key: str, sign: str, value: str) -> tuple[Callable[[RunSummary], bool], str]:
    if key.lower() not in _MEASURES:
        if sign == "=" and (key in _KEYS or "." in key):
            return (lambda run: run.spec_values.get(_KEYS.get(key, key)) == value), ""
        return (lambda run: True), f"Nothing is called {key!r} here{suggest_name(key, (*_MEASURES, *_KEYS))}"
    try:
        number = float(value.rstrip("%"))
    except ValueError:
        return (lambda run: True), f"{key} is compared with a number, not with {value!r}."
    measure, holds = _MEASURES[key.lower()], _SIGNS[sign]
    return (lambda run: (found := measure(run)) is not None and holds(found, number)), ""
