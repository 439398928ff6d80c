"""Small simulated worlds of every kind, in which conformance checks let the real engine run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fedfleet.core.edges import UserSource
from fedfleet.core.quorum import earliest_by_polling
from fedfleet.core.records import Bools, Cost, Floats, Ints
from fedfleet.core.rng import client_keys, hash_keys
from fedfleet.core.sources import DeviceSource, StateSource, World
from fedfleet.testing.toys import no_data
from fedfleet.world.downtime import crashes, outages, reachable_states
from fedfleet.world.faults import FaultRecipe, all_of, delayed, lossy, repeated, slowed


@dataclass(frozen=True, slots=True)
class TrialWorld:
    """A world by its name. `answers`: everyone who is asked reports in the end, so that rounds must succeed."""

    name: str
    world: World
    answers: bool


def trial_worlds(clients: int) -> tuple[TrialWorld, ...]:
    """Every kind of world that a selector or a policy has to live in."""
    ragged = 1.0 + hash_keys(1, "seconds", client_keys(clients)).astype(np.float64) % 97
    some_lost = np.where(np.arange(clients) % 3 == 0, math.inf, ragged)
    return (
        TrialWorld("everyone is there, at unlike speeds", _world(ragged), answers=True),
        TrialWorld("everyone is there and equally fast", _world(np.full(clients, 8.0)), answers=True),
        TrialWorld("clients come and go", _world(ragged, comes_and_goes=True), answers=True),
        TrialWorld("a third of the devices cannot do the work", _world(some_lost), answers=False),
        TrialWorld("nobody can do the work", _world(np.full(clients, math.inf)), answers=False),
        TrialWorld("nobody ever reports", _world(np.full(clients, 1e15)), answers=False),
        TrialWorld("nobody is online", _world(ragged, there=False), answers=False),
        TrialWorld("there is one client", _world(ragged[:1]), answers=False),
        TrialWorld(
            "reports come late and twice, from slow devices", _with_faults(_world(ragged), _late_faults()), answers=True
        ),
        TrialWorld("tasks are lost and clients go down", _with_faults(_world(ragged), _silent_faults()), answers=False),
    )


def _late_faults() -> FaultRecipe:
    return all_of([delayed(share=0.5, seconds=20.0), repeated(share=0.5, seconds=30.0), slowed(share=0.5, factor=2.0)])


def _silent_faults() -> FaultRecipe:
    noticed_losses = lossy(download=0.1, compute=0.1, upload=0.1, noticed=True)
    return all_of(
        [lossy(), noticed_losses, crashes(rate=0.2, seconds=120.0, period=600.0), outages(rate=0.3, seconds=300.0)]
    )


def _with_faults(world: World, faults: FaultRecipe) -> World:
    """The same world, in which things go wrong."""
    fault_source = faults(world.keys, 1)
    return replace(world, states=reachable_states(world.states, fault_source), faults=fault_source)


def _world(shortest: Floats, *, there: bool = True, comes_and_goes: bool = False) -> World:
    n = len(shortest)
    keys = client_keys(n)

    def seconds(clients: Ints, cost: Cost, start: float, tasks: Ints) -> Floats:
        del cost, start
        return shortest[clients] * (1.0 + (tasks % 3 if comes_and_goes else 0))

    def online(time: float) -> Bools:
        if not comes_and_goes:
            return np.full(n, there)
        return (np.arange(n) + int(time // 60)) % 4 > 0  # a quarter of them is away at any time

    def finish(clients: Ints, start: float, seconds: Floats) -> Floats:
        del clients
        return start + seconds

    earliest = earliest_by_polling(online, 60.0, repeats=240.0)
    users = UserSource(np.arange(n, dtype=np.int64) // 2)
    return World(keys, DeviceSource(seconds, ["toy"] * n), StateSource(online, finish, earliest), no_data(n), users)
