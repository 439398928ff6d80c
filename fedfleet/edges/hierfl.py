"""HierFL (Liu et al., ICC 2020): several averages of devices at their edge for each average of edges at the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from fedfleet.core.bounds import Ge, Le
from fedfleet.core.edges import MAX_SYNCS, EdgeRule, Sync, Turn, Visit
from fedfleet.core.limits import Share, Steps
from fedfleet.core.records import Ints
from fedfleet.core.rng import uniforms


def hierfl(*, kappa1: Steps = 10, kappa2: Annotated[int, Ge(1), Le(MAX_SYNCS)] = 2, share: Share = 1.0) -> EdgeRule:
    """Devices take `kappa1` local steps between averages at the edge; after `kappa2` of those the edge reports.

    Both levels weigh by samples. With `share` below 1 each average asks that part of the devices, drawn without replacement
    with probabilities in proportion to their samples. With kappa2 = 1 this is FedAvg with kappa1 local steps: the server gets the
    exact sum of what the devices sent, bit for bit what a flat fleet would add up. Runs of the two specs differ all the same,
    since a device's batches are drawn for its task, and tasks of users are not numbered as tasks of devices are.
    """

    def plan(visits: Sequence[Visit]) -> list[Turn]:
        turns: list[Turn] = []
        for visit in visits:
            slots = [draw_devices(visit, share, k) for k in range(kappa2)]
            syncs = tuple(Sync(some, tuple(visit.rows[slot] for slot in some.tolist()), kappa1) for some in slots)
            turns.append(Turn(visit.rows, syncs))
        return turns

    return EdgeRule("hierfl", plan)


def draw_devices(visit: Visit, share: float, sync: int) -> Ints:
    """Places of the devices that take part in one average, ascending: those with the largest u^(1/samples)."""
    sizes = np.array([len(rows) for rows in visit.rows], np.float64)
    held = np.flatnonzero(sizes > 0)
    wanted = max(1, round(share * len(held)))
    if wanted >= len(held):
        return held
    u = uniforms(visit.seed, "hierfl", visit.keys[held], visit.task, sync)
    return np.sort(held[np.argsort(-(u ** (1.0 / sizes[held])), kind="stable")[:wanted]])
