"""The user layer: from a spec's users and edge to the world of devices, which flat methods see, and the world of users."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from fedfleet.app.assemble.dealt_people import DealtPeople, dealt_people
from fedfleet.app.spec.table_checks import Table, build_part
from fedfleet.core.cost import TRAINING_PASSES
from fedfleet.core.edges import Abilities, EdgeFleet, EdgeRule, UserSource
from fedfleet.core.errors import BadInput
from fedfleet.core.part_facts import FactsOf, LabelsOf, Prior, TaskFacts
from fedfleet.core.parts import Dataset, Task
from fedfleet.core.records import Cost, Floats, Ints, Keys
from fedfleet.core.rng import client_keys, hash_keys
from fedfleet.core.sources import DataSource, DeviceSource, EnergySource, StateSource, World
from fedfleet.core.stages import StageSeconds
from fedfleet.core.strata import Strata, strata
from fedfleet.world.partitions import PartitionRecipe, make_shards
from fedfleet.world.users import UserRecipe, on_devices, spread_inside

MEGABYTE = 1e6  # how many bytes are sent to find out how fast a link is


@dataclass(frozen=True, slots=True)
class Households:
    """Users and their data, seen twice: by user, and by device."""

    users: UserSource
    keys: Keys
    data: DataSource
    slots: list[dict[str, Ints]]
    on_devices: DataSource
    people: DealtPeople | None = None


def assign_households(table: Table, task: Task, deal: PartitionRecipe, devices: int, fleet: int, seed: int) -> Households:
    """Give devices to users by the seed of the fleet; deal the samples to them, and spread each user's over the devices."""
    recipe: UserRecipe = build_part("users", table["users"])
    users = recipe.assign(devices, fleet)
    # Keys of users are not those of devices, so that user 3 and device 3 draw different numbers.
    keys = hash_keys(0, "user", client_keys(len(users)))
    most, split = int(np.bincount(users.user_of).max()), tuple(table["split"])
    # Rounding takes at most one row from the training share, and flat runs need a training row on every device.
    fewest = max(table["min_samples"] * most, math.ceil((most + 1) * sum(split) / split[0]) if most > 1 else 1)
    people = dealt_people(deal, task, len(users), fewest, devices=devices)
    data = make_shards(deal, task, keys, seed, split=split, min_samples=fewest)
    slots = spread_inside(users, data, _groups_inside(task.dataset), recipe.mu, seed)
    return Households(users, keys, data, slots, on_devices(users, data, slots), people)


def _groups_inside(dataset: Dataset) -> Ints:
    """By what a user's samples are spread over the devices: by strata; sequences have none, and differ in number only."""
    return np.zeros(len(dataset.y), np.int64) if dataset.kind.places else strata(dataset, "world.users").of


def user_world(households: Households, devices: DeviceSource, states: StateSource, energy: EnergySource | None = None) -> World:
    """The world whose clients are users. How long a user takes, and what that draws, is known only once its turn is planned."""
    kinds = [f"user with {n} devices" for n in np.bincount(households.users.user_of).tolist()]

    def seconds(clients: Ints, cost: Cost, start: float, tasks: Ints) -> Floats:
        """An estimate before anything is planned: all devices share the work evenly, and the slowest decides."""
        result: list[float] = []
        for i, user in enumerate(clients.tolist()):
            members = households.users.devices_of(user)
            n = len(members)
            part = Cost(*(np.full(n, v) for v in (cost.samples[i] / n, cost.bytes_down[i], cost.bytes_up[i])))
            result.append(float(devices.seconds(members, part, start, np.full(n, tasks[i])).max()))
        return np.array(result)

    user_energy = None if energy is None else _user_energy(households, energy)
    return World(households.keys, DeviceSource(seconds, kinds), states, households.data, energy=user_energy)


def _user_energy(households: Households, energy: EnergySource) -> EnergySource:
    """An estimate before anything is planned: all devices of a user are as busy as the user is. Turns know better."""

    def charges(clients: Ints, spent: StageSeconds, start: Floats) -> Mapping[str, Floats]:
        result: dict[str, Floats] = {}
        for i, user in enumerate(clients.tolist()):
            members = households.users.devices_of(user)
            busy = {stage: np.full(len(members), seconds[i]) for stage, seconds in spent.items()}
            for name, values in energy.charges(members, busy, np.full(len(members), start[i])).items():
                result.setdefault(name, np.zeros(len(clients)))[i] = values.sum()
        return result

    return EnergySource(charges)


def edge_fleet(
    households: Households, devices: DeviceSource, keys: Keys, byte_scale: float, energy: EnergySource | None = None
) -> EdgeFleet:
    """The devices behind the edges; their own source tells how fast they are at a given moment.

    An edge's link to the server is that of its best connected device, because the paper gives gateways no link of their own;
    where one is best upwards and another downwards, each of them costs half a trip.
    """

    def abilities_at(members: Ints, time: float, task: int) -> Abilities:
        n, tasks = len(members), np.full(len(members), task)
        none, one = np.zeros(n), np.ones(n)
        idle = devices.seconds(members, Cost(none, none, none), time, tasks)
        compute = devices.seconds(members, Cost(one, none, none), time, tasks) - idle
        down = devices.seconds(members, Cost(none, one * MEGABYTE, none), time, tasks) - idle
        up = devices.seconds(members, Cost(none, none, one * MEGABYTE), time, tasks) - idle
        batch = devices.seconds(members, Cost(none, none, none, one), time, tasks) - idle
        if not (np.isfinite(down).all() and np.isfinite(up).all() and (down > 0).all() and (up > 0).all()):
            raise BadInput("world.devices: edges need devices with finite link speeds; this kind of device has none")
        return Abilities(compute / TRAINING_PASSES, 8.0 * MEGABYTE / up, 8.0 * MEGABYTE / down, idle, batch)

    abilities_at(np.arange(len(keys)), 0.0, 0)  # so that unsuitable devices are refused before anything is written

    def backhaul(edge: int, abilities: Abilities) -> tuple[float, float, float]:
        del edge
        up, down = int(abilities.up_bps.argmax()), int(abilities.down_bps.argmax())
        trip = 0.5 * (abilities.latencies()[up] + abilities.latencies()[down])
        return float(abilities.up_bps[up]), float(abilities.down_bps[down]), float(trip)

    def energy_drawn(members: Ints, spent: StageSeconds, time: float) -> Mapping[str, float]:
        result = {} if energy is None else energy.charges(members, spent, np.full(len(members), time))
        return {name: float(values.sum()) for name, values in result.items()}

    return EdgeFleet(
        households.users, keys, lambda user: households.slots[user]["train"], abilities_at, backhaul, byte_scale, energy_drawn
    )


def edge_rule(table: Table, task: Task, epochs: float, seed: int) -> EdgeRule:
    """The rule that a spec names, given the facts about the task that it asks for; `epochs` is how often samples are seen."""
    rows = task.client_rows()

    @cache
    def groups() -> Strata:
        return strata(task.dataset, "edge")

    def labels_of(wanted: Ints) -> Ints:
        return groups().of[wanted]

    def prior() -> Floats:
        return np.bincount(groups().of[rows], minlength=groups().count) / len(rows)

    def features() -> Floats:
        from fedfleet.tasks.model_parts import class_features

        return class_features(task, task.init(seed), rows)

    def facts() -> TaskFacts:
        bits = 8.0 * task.dataset.x[:1].nbytes
        return TaskFacts(labels_of, groups().count, bits, epochs, features)

    return build_part("edges", table, {LabelsOf: labels_of, Prior: prior, FactsOf: facts})
