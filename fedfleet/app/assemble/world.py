"""The world of a spec: devices, states, held-out data, and the one-place world of algorithms that pool all data."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from fedfleet.app.spec import Spec
from fedfleet.app.spec.table_checks import Table, build_part
from fedfleet.choose.uniform import uniform
from fedfleet.core.fleet import StateScorer, StateTable
from fedfleet.core.parts import Plan, Task
from fedfleet.core.records import Floats, Ints, Keys
from fedfleet.core.rng import client_keys
from fedfleet.core.sources import DataSource, DeviceSource, EnergySource, FaultSource, Split, StateSource, World
from fedfleet.measure.montecarlo.metrics import state_scores
from fedfleet.measure.montecarlo.settings import Semantics, Settings
from fedfleet.pace.rounds import readiness
from fedfleet.world.devices import median_devices
from fedfleet.world.faults import reachable_states
from fedfleet.world.holdouts import with_holdouts
from fedfleet.world.states import always_on


def devices_for(table: Table, keys: Keys, seed: int) -> DeviceSource:
    """How fast the devices are. `world.heterogeneity` can make them all alike (FLASH's four-way ablation)."""
    devices: DeviceSource = build_part("devices", table["devices"])(keys, seed)
    return median_devices(devices) if table["heterogeneity"] in ("states", "none") else devices


def states_for(table: Table, keys: Keys, seed: int) -> StateSource:
    """When these clients can be reached. `world.heterogeneity` can make that always."""
    if table["heterogeneity"] in ("devices", "none"):
        return always_on()(keys, seed)
    return build_part("states", table["states"], {StateScorer: score_states})(keys, seed)


@dataclass(frozen=True, slots=True)
class WorldExtras:
    """What a world has beside devices, states and data; and the states in which clients that are down cannot be reached."""

    states: StateSource
    faults: FaultSource | None
    energy: EnergySource
    free_probes: bool


def world_extras(table: Table, devices: DeviceSource, states: StateSource, keys: Keys, seed: int) -> WorldExtras:
    """What goes wrong, what work draws from batteries, and whether looking is free."""
    faults, energy = faults_for(table, keys, seed), build_part("energy", table["energy"])(devices, keys, seed)
    return WorldExtras(reachable_states(states, faults), faults, energy, table["free_probes"])


def faults_for(table: Table, keys: Keys, seed: int) -> FaultSource | None:
    """What goes wrong, if the spec names anything."""
    return build_part("faults", table["faults"])(keys, seed) if "faults" in table else None


def score_states(states: StateTable, deadline: float, k: int, rounds: int, semantics: Semantics) -> Floats:
    """The single-state metric of each state, for samplers that rank states by it."""
    settings = Settings(k=min(k, len(states)), rounds=rounds, deadline=deadline, semantics=semantics)
    return _scores(_SameStates(_content(states), states), settings)


@dataclass(frozen=True, slots=True)
class _SameStates:
    """States that are equal to others if their content is."""

    content: str
    states: StateTable = field(compare=False)


def _content(states: StateTable) -> str:
    traces, digest = states.traces, hashlib.sha256()
    for values in (traces.start, traces.period, traces.offsets, traces.begins, traces.ends, traces.row_index):
        digest.update(b"" if values is None else np.ascontiguousarray(values).data)
    return digest.hexdigest()


@lru_cache(maxsize=16)  # the runs of a study, and the report of each, ask for the same ones
def _scores(same: _SameStates, settings: Settings) -> Floats:
    scores = state_scores(settings, same.states)
    scores.setflags(write=False)
    return scores


def pool_clients(plan: Plan, world: World) -> tuple[Plan, World]:
    """The same problem for one trainer that holds all training data; clients keep their own test data."""
    inner = world.data
    everything = np.concatenate([inner.shard(c, "train", 0) for c in range(plan.clients)])
    keys: Keys = client_keys(1)

    def shard(client: int, split: Split, round: int) -> Ints:
        return everything if split == "train" else inner.shard(client, split, round)

    data = DataSource(shard, lambda round: np.array([len(everything)]), inner.testers, inner.holdout, inner.unseen)
    devices = DeviceSource(lambda clients, cost, start, tasks: np.zeros(len(clients)), ["server"])
    # Only one client is left to choose.
    pooled_plan = replace(plan, clients=1, choose=uniform(), pace=readiness(1, min_clients=1), byte_scale=0.0)
    return pooled_plan, World(keys, devices, always_on()(keys, plan.seed), data)


def apply_holdouts(spec: Spec, task: Task) -> Task:
    """The task with the test set and the unseen people that [world] asks for; without these keys as it is."""
    return with_holdouts(task, spec.world, spec.data_seed, test_users=bool(spec.task.get("test_users")))
