"""Per-client settings: the tables under [[override]]."""

from __future__ import annotations

import numpy as np

from fedfleet.app.spec import Spec
from fedfleet.app.spec.resolving import changed
from fedfleet.app.spec.tables import build_part
from fedfleet.core.errors import BadInput, nearest
from fedfleet.core.labels import RunFacts
from fedfleet.core.parts import Algorithm, World
from fedfleet.core.records import Ints
from fedfleet.learn.override import overridden


def run_facts(spec: Spec) -> RunFacts:
    """What a builder may ask about this run."""
    return RunFacts(spec.world["clients"], spec.seed, spec.stop["rounds"])


def with_overrides(algorithm: Algorithm, spec: Spec, world: World) -> Algorithm:
    """The algorithm with the settings that [[override]] gives to some clients or kinds of device.

    Whoever is named by several has the settings of all; where two change the same setting the later one counts.
    """
    if not spec.override:
        return algorithm
    kinds = np.array(world.devices.kinds)
    applying, which = combinations([_members(spec, i, kinds) for i in range(len(spec.override))], len(world.keys))
    used = [number for number in np.unique(which).tolist() if number]
    variants = [(np.flatnonzero(which == number), _variant(spec, applying[number])) for number in used]
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


def _variant(spec: Spec, tables: tuple[int, ...]) -> Algorithm:
    where = " and ".join(f"override[{i}]" for i in tables) + ".algorithm"
    table = spec.algorithm
    for i in tables:
        whole = next((key for key in ("fold", "private") if key in spec.override[i]["algorithm"]), None)
        if whole is not None:
            raise BadInput(f"{where}.{whole}: it is the server's, the same for all clients; set it in [algorithm]")
        table = changed(table, spec.override[i]["algorithm"], where)
    try:
        return build_part("algorithms", table, {RunFacts: run_facts(spec)})
    except BadInput as wrong:
        raise BadInput(f"{where}: {wrong}") from None
