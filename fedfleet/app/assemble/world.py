"""The world of a spec: devices, states, held-out data, and the one-place world of algorithms that pool all data.

Held out are samples, as a central test set in a size of its own, and people on whose data no client trains.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from fedfleet.app.spec import Spec
from fedfleet.app.spec.table_checks import Table, build_part
from fedfleet.choose.uniform import uniform
from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import StateScorer, StateTable
from fedfleet.core.parts import Plan, Task
from fedfleet.core.records import Floats, Ints, Keys
from fedfleet.core.rng import client_keys, stream
from fedfleet.core.sources import DataSource, DeviceSource, EnergySource, FaultSource, Split, StateSource, World
from fedfleet.measure.montecarlo.metrics import state_scores
from fedfleet.measure.montecarlo.settings import Semantics, Settings
from fedfleet.pace.rounds import readiness
from fedfleet.world.devices import median_devices
from fedfleet.world.faults import reachable_states
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


_NAMES_SHOWN = 3  # people that a sentence names


def apply_holdouts(spec: Spec, task: Task) -> Task:
    """The task with the test set and the unseen people that [world] asks for; without these keys as it is."""
    return with_unseen(with_holdout(task, spec), spec.world["unseen"], spec.data_seed)


def with_holdout(task: Task, spec: Spec) -> Task:
    """The task with a central test set of `world.holdout`: a share of all samples, or a number of them.

    Drawn from the order that the usual fifth is drawn from, so that a larger set has the smaller one inside.
    """
    wanted, n = spec.world["holdout"], len(task.dataset.y)
    if wanted is None:
        return task
    if spec.task.get("test_users"):
        raise BadInput(
            "world.holdout: task.test_users already says whose samples are the central test set; set only one of the two"
        )
    size = max(1, round(wanted * n)) if isinstance(wanted, float) else int(wanted)
    if size >= n:
        raise BadInput(f"world.holdout = {wanted}: the data has {n} samples, but some must be left for training; hold out fewer")
    return replace(task, holdout=np.sort(stream(spec.data_seed, "holdout").permutation(n)[:size]))


def with_unseen(task: Task, wanted: float | int | Sequence[int] | None, seed: int) -> Task:
    """The task without some people: none of their samples is trained on or in the central test set, and they are judged apart.

    `wanted` is a share of the people who made the samples, how many of them, or a list of them by number. Which partition deals
    the rest makes no difference; but the data must say who made each sample.
    """
    if wanted is None:
        return task
    owner = task.dataset.owner
    if owner is None:
        raise BadInput(
            f"world.unseen: the data of {task.name!r} do not name the owner of each sample, so people cannot be held out; use data "
            "with owners, or hold out samples instead of people with world.holdout"
        )
    people = np.unique(owner)
    chosen = _pick_people(people, wanted, seed)
    unseen = np.flatnonzero(np.isin(owner, chosen))
    new_task = replace(task, unseen=unseen, holdout=np.setdiff1d(task.holdout, unseen))
    if len(chosen) >= len(people) or not len(new_task.client_rows()):
        raise BadInput(
            f"world.unseen: {len(chosen)} of {len(people)} people would be held out, but training needs at least one; hold out "
            "fewer"
        )
    if not len(new_task.holdout):
        raise BadInput("world.unseen: no sample is left for the central test set; hold out fewer people, or raise world.holdout")
    return new_task


def _pick_people(people: Ints, wanted: float | int | Sequence[int], seed: int) -> Ints:
    if isinstance(wanted, Sequence):
        odd = [one for one in wanted if one not in people]
        if odd or not wanted:
            numbers = f"{people.min()} to {people.max()}" if np.ptp(people) == len(people) - 1 else f"{people[:_NAMES_SHOWN]} .."
            problem = f"there is no person {odd[0]}" if odd else "the list is empty"
            raise BadInput(f"world.unseen: {problem}; the people of this dataset have the numbers {numbers}")
        return np.array(wanted, np.int64)
    n = max(1, round(wanted * len(people))) if isinstance(wanted, float) else wanted
    return stream(seed, "unseen").permutation(people)[:n]
