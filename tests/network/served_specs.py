"""Small specs that together name every registered part of a plan, for walks over what a server serves."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from fedfleet.core.registry import names
from tests.testing.registered import fitting_task

CLIENTS = 4
BASE: Mapping[str, Any] = {
    "seed": 3,
    "task": {"use": "digits_logreg"},
    "world": {"clients": CLIENTS, "devices": {"use": "spread"}},
    "algorithm": {"use": "fedavg"},
    "pace": {"use": "readiness", "cohort": 3, "t_break": 0.05, "min_clients": 1},
    "stop": {"rounds": 2},
}
_ROUND = {"cohort": 3, "t_break": 0.05, "min_clients": 1}
_POLICIES: Mapping[str, Mapping[str, Any]] = {
    "readiness": _ROUND,
    "deadline": {**_ROUND, "seconds": 30.0},
    "timeout": {"cohort": 3, "t_break": 0.05},
    "buffered": {"concurrency": 3, "k": 2},
    "semi_async": {"concurrency": 3, "period": 0.5},
    "overcommit": {"policy": {"use": "readiness", **_ROUND, "cohort": 2}},
    "first_of": {"first": {"use": "readiness", **_ROUND}, "second": {"use": "deadline", **_ROUND, "seconds": 30.0}},
}
_SELECTORS: Mapping[str, Mapping[str, Any]] = {"only": {"ids": [0, 1, 2]}, "power_of_choice": {"d": 4}, "tifl": {"tiers": 2}}
_FOLDS: Mapping[str, Mapping[str, Any]] = {"krum": {"f": 0}, "multi_krum": {"f": 0}}
_CODECS: Mapping[str, Any] = {"lowrank": {"use": "lowrank", "rank": 2}}
# Codecs that are another one with another number of bits, or another packer of the same bytes: tried alone, and not in pairs.
_ALIKE = ("int2", "int3", "int5", "int6", "int7", "deflate", "zstd", "fp16")
_OVERRIDE = [{"clients": [1], "algorithm": {"lr": 0.01}}]


@cache
def axes() -> dict[str, dict[str, dict[str, Any]]]:
    """By axis and by the name of its part: the tables that a spec with this part has. The plain choice of an axis comes first."""
    tasks = {name: {"task": fitting_task(name), "algorithm": {"use": name}} for name in names("algorithms")}
    algorithms = {"fedavg": tasks.pop("fedavg"), **tasks}
    return {
        "algorithm": algorithms,
        "codec": {
            "none": {},
            **{f"up {n}": {"algorithm": {"up": [_CODECS.get(n, n)]}} for n in names("codecs") if n not in _ALIKE},
            "feedback": {"algorithm": {"up": ["topk"], "feedback": True}},
            **{f"down {n}": {"algorithm": {"down": [n]}} for n in ("int8", "gzip")},
        },
        "pace": {n: {"pace": {"use": n, **_POLICIES[n]}} for n in _plain_first("policies", "readiness")},
        "choose": {n: {"choose": {"use": n, **_SELECTORS.get(n, {})}} for n in _plain_first("selectors", "uniform")},
        "privacy": {
            "none": {}, **{n: {"algorithm": {"private": {"use": n, "noise": 0.3}}} for n in names("privacy")},
        },
        "fold": {n: {"algorithm": {"fold": {"use": n, **_FOLDS.get(n, {})}}} for n in _plain_first("folds", "mean")},
        "attack": {"none": {}, **{n: {"algorithm": {"attack": {"use": n, "share": 0.3}}} for n in names("attacks")}},
        "override": {"none": {}, "one client": {"override": _OVERRIDE}},
        "execute": {n: {"run": {"execute": n}} for n in ("inline", "stacked", "numpy")},
    }  # fmt: skip


def singles() -> list[dict[str, str]]:
    """One cell for every choice of every axis."""
    return [{axis: name} for axis, choices in axes().items() for name in choices]


def alike() -> list[dict[str, Any]]:
    """The specs with the codecs that are left out of pairs."""
    return [{**BASE, "algorithm": {"use": "fedavg", "up": [name]}} for name in _ALIKE]


def _plain_first(kind: str, plain: str) -> list[str]:
    return sorted(names(kind), key=lambda name: (name != plain, name))


def spec_of(cell: Mapping[str, str]) -> dict[str, Any]:
    """The spec that has these parts, by axis; an axis that is not named keeps its plain choice."""
    known, result = axes(), dict(BASE)
    for axis, name in cell.items():
        for key, value in known[axis][name].items():
            before = result.get(key)
            both = axis in ("algorithm", "codec", "privacy", "fold", "attack") and isinstance(before, dict)
            result[key] = {**before, **value} if both and key == "algorithm" else value
    return result


def pairs() -> list[dict[str, str]]:
    """Cells in which every choice of every axis meets every choice of every other one, as few as a greedy search finds."""
    known = {axis: list(choices) for axis, choices in axes().items()}
    order = list(known)
    missing = {
        (a, x, b, y) for i, a in enumerate(order) for b in order[i + 1 :] for x in known[a] for y in known[b]
    }  # fmt: skip
    cells: list[dict[str, str]] = []
    while missing:
        a, x, b, y = min(missing)
        cell = {a: x, b: y}
        for axis in order:
            if axis in cell:
                continue

            gains = {
                choice: sum(_pair(order, axis, choice, other, cell[other]) in missing for other in cell) for choice in known[axis]
            }
            cell[axis] = max(known[axis], key=gains.__getitem__)
        missing -= {_pair(order, p, cell[p], q, cell[q]) for p in cell for q in cell if p != q}
        cells.append({axis: cell[axis] for axis in order})
    return cells


def _pair(order: list[str], a: str, x: str, b: str, y: str) -> tuple[str, str, str, str]:
    return (a, x, b, y) if order.index(a) < order.index(b) else (b, y, a, x)
