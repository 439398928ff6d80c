"""Per-client settings: the tables under [[override]]."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import numpy as np

from fedfleet.app.spec import Spec
from fedfleet.app.spec.resolving import changed
from fedfleet.app.spec.tables import build_part
from fedfleet.core.errors import BadInput, nearest
from fedfleet.core.labels import FleetFacts, RunFacts
from fedfleet.core.parts import Algorithm, Task, World
from fedfleet.core.records import Ints
from fedfleet.learn.override import overridden
from fedfleet.tasks.narrowing import shape_at


def run_facts(spec: Spec) -> RunFacts:
    """What a builder may ask about this run."""
    return RunFacts(spec.world["clients"], spec.seed, spec.stop["rounds"])


def fleet_facts(spec: Spec, task: Task, world: World, byte_scale: float) -> FleetFacts:
    """What a builder may ask about the model and the devices of this run; the model is looked at when somebody asks."""
    model = cache(partial(shape_at, task))
    return FleetFacts(model, world.keys, spec.seed, world.devices.memory_mb, byte_scale)


def with_overrides(algorithm: Algorithm, spec: Spec, world: World, facts: Mapping[Any, Any]) -> Algorithm:
    """The algorithm with the settings that [[override]] gives to some clients or kinds of device.

    Whoever is named by several has the settings of all; where two change the same setting the later one counts.
    """
    if not spec.override:
        return algorithm
    kinds = np.array(world.devices.kinds)
    applying, which = combinations([_members(spec, i, kinds) for i in range(len(spec.override))], len(world.keys))
    used = [number for number in np.unique(which).tolist() if number]
    variants = [(np.flatnonzero(which == number), _variant(spec, applying[number], facts)) for number in used]
    return overridden(algorithm, tuple(variants), len(world.keys))


def combinations(members: list[Ints], clients: int) -> tuple[list[tuple[int, ...]], Ints]:
    """Which tables apply together, and the number of the combination that each client has; the first is none at all.

    >>> combinations([np.array([0, 1]), np.array([1, 2])], 4)
    ([(), (0,), (1,), (0, 1)], array([1, 3, 2, 0]))
    """
    found: dict[tuple[int, ...], int] = {(): 0}
    which = np.zeros(clients, np.int64)
    for table, clients_of in enumerate(members):
        before, names = which[clients_of], list(found)
        after = before.copy()
        for number in np.unique(before).tolist():
            after[before == number] = found.setdefault((*names[number], table), len(found))
        which[clients_of] = after
    return list(found), which


def _members(spec: Spec, i: int, kinds: np.ndarray) -> Ints:
    """The clients that a table names, by number or by the kind of their device."""
    table, fleet = spec.override[i], len(kinds)
    found = [np.array(table["clients"], np.int64)]
    if len(found[0]) and found[0].max() >= fleet:
        raise BadInput(f"override[{i}].clients: there is no client {found[0].max()} in a fleet of {fleet}")
    for kind in table["kinds"]:
        own = np.flatnonzero(kinds == kind)
        if not len(own):
            raise BadInput(f"override[{i}].kinds: no device is of kind {kind!r}{nearest(kind, set(kinds.tolist()))}")
        found.append(own)
    return np.unique(np.concatenate(found))


def _variant(spec: Spec, tables: tuple[int, ...], facts: Mapping[Any, Any]) -> Algorithm:
    where = " and ".join(f"override[{i}]" for i in tables) + ".algorithm"
    table = spec.algorithm
    for i in tables:
        table = changed(table, spec.override[i]["algorithm"], where)
    try:
        return build_part("algorithms", table, facts)
    except BadInput as wrong:
        raise BadInput(f"{where}: {wrong}") from None
