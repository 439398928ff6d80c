"""Per-client settings: the tables under [[override]]."""

from __future__ import annotations

import numpy as np

from fedfleet.app.spec import Spec
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
    """The algorithm with the settings that [[override]] gives to some clients or kinds of device."""
    variants: list[tuple[Ints, Algorithm]] = []
    provide = {RunFacts: run_facts(spec)}
    kinds = np.array(world.devices.kinds)
    for i, table in enumerate(spec.override):
        members = np.array(table["clients"], np.int64)
        if len(members) and members.max() >= len(world.keys):
            raise BadInput(f"override[{i}].clients: there is no client {members.max()} in a fleet of {len(world.keys)}")
        for kind in table["kinds"]:
            if kind not in kinds:
                raise BadInput(
                    f"override[{i}].kinds: no device is of kind {kind!r}{nearest(kind, set(kinds.tolist()))}"
                )
            members = np.concatenate([members, np.flatnonzero(kinds == kind)])
        variants.append((members, build_part("algorithms", {**spec.algorithm, **table["algorithm"]}, provide)))
    return overridden(algorithm, tuple(variants), len(world.keys)) if variants else algorithm
