"""In which keys specs differ, and which runs repeat each other but for their seeds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fedfleet.app.studies.compare.records import Arm, ComparedRun, clock_of

_LONGEST = 40  # characters of a value in a name
_LENGTHY = 60  # characters: specs that differ in more than that are named by the folders of their runs
_WHOLE = 1e9  # whole numbers below are written without a point: seconds 60
_ALL = "all runs"
_RUNTIME_KEY = "runtime.use"  # no key of a spec: whether a run was served or simulated


def flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """A nested table by dotted keys, without [run], which says how and not what; lists stay whole.

    >>> flat({"seed": 1, "pace": {"use": "deadline", "seconds": 60.0}, "run": {"threads": 2}})
    {'seed': 1, 'pace.use': 'deadline', 'pace.seconds': 60.0}
    """
    result: dict[str, Any] = {}
    for key, value in table.items():
        if key == "run":
            continue
        result |= _flatten(key, value)
    return result


def _flatten(path: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping) and value:
        return {k: v for key, inner in value.items() for k, v in _flatten(f"{path}.{key}", inner).items()}
    return {path: value}


def differing_keys(runs: Sequence[ComparedRun]) -> dict[str, list[Any]]:
    """The dotted keys in which the specs differ, each with the value of every run; None where a spec has no such key.

    Where some runs were served over a network and others simulated, that is one of them.
    """
    run_kinds = [{_RUNTIME_KEY: "served" if run.served else "simulated"} if not clock_of(runs) else {} for run in runs]
    tables = [{**flat(run.table), **how} for run, how in zip(runs, run_kinds, strict=True)]
    keys = dict.fromkeys(key for table in tables for key in table)
    columns = {key: [table.get(key) for table in tables] for key in keys}
    return {key: values for key, values in columns.items() if any(v != values[0] for v in values[1:])}


def is_seed_key(key: str) -> bool:
    """Does this key only say which of many equal draws a run is?"""
    return key == "seed" or key.startswith("seeds.")


def seed_of(run: ComparedRun) -> str:
    """The seeds of a run as one word: what two runs must share to be a pair.

    A seed for fleet, data or training is named where it is not the seed of the whole run.
    """
    own: Mapping[str, Any] = run.table.get("seeds", {})
    parts = [f"{key} {value}" for key, value in sorted(own.items()) if value != run.seed]
    return f"{run.seed} ({', '.join(parts)})" if parts else str(run.seed)


def draws_of(run: ComparedRun) -> dict[str, int]:
    """Which draw of fleet, data and training a run is: runs that share one are not independent of each other."""
    own: Mapping[str, Any] = run.table.get("seeds", {})
    words = {"fleet": "fleets", "data": "draws of data", "training": "trainings"}
    return {word: int(own.get(key, run.seed)) for key, word in words.items()}


def arms(runs: Sequence[ComparedRun]) -> tuple[Arm, ...]:
    """Runs whose specs differ in seeds only form one arm, in the order in which arms first appear."""
    columns = {key: values for key, values in differing_keys(runs).items() if not is_seed_key(key)}
    rows = [{key: values[i] for key, values in columns.items()} for i in range(len(runs))]
    groups: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        groups.setdefault(json.dumps(row, sort_keys=True, default=str), []).append(i)
    keys = [rows[members[0]] for members in groups.values()]
    names = arm_names(keys)
    if max(map(len, names), default=0) > _LENGTHY:
        names = _folder_names([[runs[i].name for i in members] for members in groups.values()]) or names
    return tuple(
        Arm(name, row, tuple(runs[i] for i in members)) for name, row, members in zip(names, keys, groups.values(), strict=True)
    )


def _folder_names(arms: Sequence[Sequence[str]]) -> list[str]:
    """What the names of each arm's runs have in common, where that is unique; else nothing.

    >>> _folder_names([["slow-0", "slow-1"], ["quick"]]), _folder_names([["a0", "b1"], ["c"]])
    (['slow', 'quick'], [])
    """
    result = [names[0] if len(names) == 1 else _common_prefix(names).rstrip("-_. 0123456789") for names in arms]
    return result if all(result) and len(set(result)) == len(result) else []


def _common_prefix(names: Sequence[str]) -> str:
    """The letters with which all of these begin."""
    letters = list[str]()
    for column in zip(*names, strict=False):
        if len(set(column)) > 1:
            break
        letters.append(column[0])
    return "".join(letters)


def arm_names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A name for each arm, of as few of its differing keys as make it unique; parts come before their numbers.

    >>> arm_names([{"pace.use": "readiness", "pace.seconds": None}, {"pace.use": "deadline", "pace.seconds": 60.0}])
    ['readiness', 'deadline']
    >>> arm_names([{"pace.use": u, "pace.seconds": s} for u, s in (("readiness", None), ("deadline", 60.0), ("deadline", 90.0))])
    ['readiness', 'deadline, seconds 60', 'deadline, seconds 90']
    >>> arm_names([{"algorithm.lr": 0.1}, {"algorithm.lr": 0.5}])
    ['lr 0.1', 'lr 0.5']
    """
    if len(rows) < 2:
        return [_ALL] * len(rows)
    # An arm of a study may leave out what another one sets.
    keys = dict.fromkeys(key for row in rows for key in row)
    rows = [{key: row.get(key) for key in keys} for row in rows]
    chosen, distinct = list[str](), 1
    for key in sorted(rows[0], key=lambda k: not k.endswith(".use")):
        if (count := _distinct_count(rows, [*chosen, key])) > distinct:
            chosen, distinct = [*chosen, key], count
    for key in [k for k in chosen if not k.endswith(".use")]:  # a later number may make it unique too
        fewer = [k for k in chosen if k != key]
        chosen = fewer if _distinct_count(rows, fewer) == distinct else chosen
    ends = [key.rsplit(".", 1)[-1] for key in chosen]
    short = {key: end if ends.count(end) == 1 else key for key, end in zip(chosen, ends, strict=True)}
    names = [", ".join(_key_words(key, short[key], row[key]) for key in chosen if not _can_omit(key, row, chosen)) for row in rows]
    # Long values that are cut may end alike.
    return names if len(set(names)) == len(names) else [f"{name} #{i + 1}" for i, name in enumerate(names)]


def quote(name: str) -> str:
    """The name of an arm in a sentence."""
    return f"'{name}'"


def _distinct_count(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> int:
    """How many of these arms differ in these keys."""
    return len({json.dumps([row[k] for k in keys], default=str) for row in rows})


def _can_omit(key: str, row: Mapping[str, Any], chosen: Sequence[str]) -> bool:
    """Whether a part that is named already says that there is no such number: who waits for all has no deadline."""
    part = f"{key.rpartition('.')[0]}.use"
    return row[key] is None and part != key and part in chosen and row[part] is not None


def _key_words(key: str, short: str, value: Any) -> str:
    if value is None:
        return f"no {key.removesuffix('.use') if key.endswith('.use') else short}"
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE
    text = f"{value:.0f}" if is_whole else str(value) if isinstance(value, str | float) else json.dumps(value, default=str)
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 2]}.."
    return text if key.endswith(".use") else f"{short} {text}"
