"""From the arms of a comparison to sides on a page: what shares a fleet shares a colour."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedfleet.app.pages.sides.run_looks import PageRun, Side
from fedfleet.app.studies.compare.arms import arm_names
from fedfleet.app.studies.compare.records import Arm

COLOURS = 5  # of series
PANELS, LONGEST = 4, 48  # groups beside each other, and characters of a name among several


def group_arms(arms: Sequence[Arm]) -> dict[str, tuple[Arm, ...]]:
    """Arms by their world, each with a name that tells it from the others of its group.

    Only where arms differ in their world and in something else too; else all are one group without a name.
    """
    worlds = [_key_part(arm.keys, world=True) for arm in arms]
    rests = [_key_part(arm.keys, world=False) for arm in arms]
    if len(_distinct(worlds)) < 2 or len(_distinct(rests)) < 2:
        return {"": tuple(arms)}
    groups, names = _short_names(worlds), _short_names(rests)
    if len(groups) > PANELS or max(map(len, [*groups.values(), *names.values()])) > LONGEST:
        return {"": tuple(arms)}  # as many worlds as arms, or words that fill the page: each arm for itself
    result: dict[str, list[Arm]] = {}
    for arm, world, rest in zip(arms, worlds, rests, strict=True):
        result.setdefault(groups[_row_key(world)], []).append(replace(arm, name=names[_row_key(rest)]))
    return {group: tuple(members) for group, members in result.items()}


def _key_part(keys: Mapping[str, Any], *, world: bool) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if key.startswith("world.") == world}


def _distinct(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(map(_row_key, rows)))


def _short_names(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    first = {_row_key(row): row for row in reversed(rows)}
    words = _distinct(rows)
    return dict(zip(words, arm_names([first[word] for word in words]), strict=True))


def _row_key(row: Mapping[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, default=str)


def colour_sides(groups: Mapping[str, Sequence[tuple[str, tuple[PageRun, ...]]]]) -> list[Side]:
    """Sides with their colours: a group has one colour and its second side thin lines; without groups, each side has its own."""
    if len(groups) == 1:
        ((group, members),) = groups.items()
        return [
            Side(name, looks, 1 + i % COLOURS, bool(i // COLOURS % 2), group) for i, (name, looks) in enumerate(members)
        ]
    return [
        Side(name, runs, 1 + g % COLOURS, bool(i % 2), group)
        for g, (group, members) in enumerate(groups.items())
        for i, (name, runs) in enumerate(members)
    ]


def sides_of(groups: Mapping[str, tuple[Arm, ...]], page_runs: Mapping[Path, PageRun]) -> list[Side]:
    """The sides of a comparison, from its grouped arms and what was read of each run."""
    return colour_sides({
        group: [(arm.name, tuple(page_runs[run.out] for run in arm.runs)) for arm in arms]
        for group, arms in groups.items()
    })  # fmt: skip
