"""From a resolved spec to a plan, a world and an executor."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedfleet.app.spec import Spec, resolve, with_words
from fedfleet.app.tables import Table, build_part
from fedfleet.app.userlayer import Households, edge_fleet, edge_rule, settle, user_world
from fedfleet.core.errors import BadInput, nearest
from fedfleet.core.fleet import StateScorer, StateTable
from fedfleet.core.parts import (
    Algorithm,
    DataSource,
    DeviceSource,
    Executor,
    Plan,
    Policy,
    Split,
    StateSource,
    Task,
    World,
)
from fedfleet.core.records import Floats, Ints, Keys, Stop
from fedfleet.core.rng import client_keys
from fedfleet.core.trees import tree_nbytes
from fedfleet.engine.nested import nested
from fedfleet.learn.override import overridden
from fedfleet.measure.montecarlo.metrics import state_scores
from fedfleet.measure.montecarlo.settings import Semantics, Settings
from fedfleet.pace.rounds import readiness
from fedfleet.world.devices import levelled
from fedfleet.world.partitions import hold
from fedfleet.world.states import always_on


@dataclass(frozen=True, slots=True)
class Setup:
    """All that a run needs. The executor is made last, when it is known that everything else fits."""

    spec: Spec
    plan: Plan
    world: World
    task: Task
    executor: Callable[..., Executor]


def assemble(spec: Spec, task: Task | None = None) -> Setup:
    """Build every part that the spec names and see that they fit together; `task` replaces the one by name."""
    check_executor(spec)
    seed, world_table = spec.seed, spec.world
    pace: Policy = build_part("policies", spec.pace)
    _room_for(pace, world_table["clients"], "clients")
    keys = client_keys(world_table["clients"])
    task = task if task is not None else make_task(spec)
    devices, states = devices_and_states(world_table, keys, seed)
    deal = build_part("partitions", world_table["data"])
    home = settle(world_table, task, deal, len(keys), seed) if "users" in world_table else None
    if home is None:
        data = hold(deal, task, keys, seed, split=tuple(world_table["split"]), min_samples=world_table["min_samples"])
        world = World(keys, devices, states, data)
    else:
        world = World(keys, devices, states, home.on_devices, home.users)
    algorithm = with_overrides(build_part("algorithms", spec.algorithm), spec, world)
    params = task.init(seed)
    declared = world_table["model_bytes"]
    plan = Plan(
        seed=seed,
        algorithm=algorithm,
        choose=build_part("selectors", spec.choose),
        pace=pace,
        stop=Stop(**spec.stop),
        params=params,
        clients=len(keys),
        byte_scale=1.0 if declared is None else declared / tree_nbytes(params),
        spec_digest=spec.digest,
    )
    if algorithm.pooled:
        plan, world = in_one_place(plan, world)
    if spec.edge is not None and home is not None:
        plan, world = one_layer_up(spec, plan, world, task, home)
    return Setup(spec, plan, world, task, lambda keep=None: make_executor(spec, task, keep))


def _room_for(pace: Policy, clients: int, what: str) -> None:
    if pace.cohort > clients:
        raise BadInput(
            f"pace.cohort: a cohort of {pace.cohort} is larger than the fleet of {clients} {what}; "
            "lower pace.cohort or raise world.clients"
        )


def one_layer_up(spec: Spec, plan: Plan, world: World, task: Task, home: Households) -> tuple[Plan, World]:
    """The same fleet seen from its users: they are the clients, and their edges train on the devices behind them."""
    if plan.algorithm.pooled:
        raise BadInput(f"edge: {plan.algorithm.name!r} trains in one place and has no use for edges; leave [edge] out")
    _room_for(plan.pace, len(home.users), "users")
    assert spec.edge is not None
    rule = edge_rule(spec.edge, task, spec.algorithm, spec.seed)
    fleet = edge_fleet(home, world.devices, world.keys, plan.byte_scale)
    states = states_for(spec.world, home.keys, spec.seed)
    above = replace(plan, algorithm=nested(plan.algorithm, rule, fleet), clients=len(home.users))
    return above, user_world(home, world.devices, states)


def devices_and_states(table: Table, keys: Keys, seed: int) -> tuple[DeviceSource, StateSource]:
    """The two kinds of heterogeneity, each of which `world.heterogeneity` can switch off (FLASH's four-way ablation)."""
    on = table["heterogeneity"]
    devices: DeviceSource = build_part("devices", table["devices"])(keys, seed)
    if on in ("states", "none"):
        devices = levelled(devices)
    return devices, states_for(table, keys, seed)


def states_for(table: Table, keys: Keys, seed: int) -> StateSource:
    """When these clients can be reached."""
    if table["heterogeneity"] in ("devices", "none"):
        return always_on()(keys, seed)
    return build_part("states", table["states"], {StateScorer: score_states})(keys, seed)


def score_states(states: StateTable, deadline: float, k: int, rounds: int, semantics: Semantics) -> Floats:
    """The single-state metric of each state, for the samplers that rank states by it."""
    return state_scores(Settings(k=min(k, len(states)), rounds=rounds, deadline=deadline, semantics=semantics), states)


def make_task(spec: Spec) -> Task:
    """The task that the spec names."""
    return build_part("tasks", spec.task)(spec.seed)


def make_executor(spec: Spec, task: Task, keep: Path | None = None) -> Executor:
    """The executor that [run] names; `auto` is the literal one. `keep` is where a choice among its forms is kept."""
    from fedfleet.runtime.executors.inline import inline
    from fedfleet.runtime.executors.nested import nested as edges

    run = spec.run
    if spec.edge is not None and run["execute"] != "ray":
        return edges(make_executor(replace(spec, edge=None), task, keep))
    here = inline(task, threads=run["threads"])
    match run["execute"]:
        case "stacked":
            return _stacked(run, task, keep)
        case "ray":
            from fedfleet.runtime.executors.parcels import Recipe
            from fedfleet.runtime.executors.ray import ray_executor

            recipe = Recipe("fedfleet.app.assemble:rebuild_kit", spec.toml())
            gpus = 1 if run["ray_execute"] == "stacked" and run["device"] == "cuda" else 0
            return ray_executor(
                recipe, here, workers=run["workers"], address=run["ray_address"], threads=run["threads"], gpus=gpus
            )
        case _:
            return here


def _stacked(run: Table, task: Task, keep: Path | None) -> Executor:
    """The stacked executor in the form that was found fastest for this model here, once and for all of this run."""
    from fedfleet.runtime.executors.stacked.executor import stacked
    from fedfleet.runtime.executors.stacked.forms import choose_form

    form, threads = choose_form(task, device=run["device"], threads=run["threads"], keep=keep)
    return stacked(task, device=run["device"], threads=threads, form=form, tf32=run["tf32"])


def check_executor(spec: Spec) -> None:
    """See that the executor can be had, before anything is built or written."""
    if spec.run["execute"] == "ray":
        if spec.edge is not None:
            raise BadInput('run.execute = "ray" cannot run the devices behind an [edge] yet; use inline or stacked')
        from fedfleet.runtime.executors.ray import require_ray

        require_ray(spec.run["ray_address"])
        if spec.task["use"] == "own":
            raise BadInput(
                'run.execute = "ray" cannot train an own model, since workers rebuild the task from the spec; '
                'register it as a task of an installed package, or use run.execute = "inline"'
            )


@contextmanager
def executing(setup: Setup, keep: Path | None = None) -> Iterator[Executor]:
    """The executor of a setup, for as long as it is used; what it started ends with it."""
    execute = setup.executor(keep)
    try:
        yield execute
    finally:
        if execute.close is not None:
            execute.close()


def rebuild(text: str) -> Setup:
    """What a spec's text names, built in another process, such as a device or a worker: there training is inline."""
    return assemble(resolve(with_words(tomllib.loads(text), ["run.execute=inline"])))


def rebuild_kit(text: str) -> tuple[Algorithm, Executor]:
    """What a worker needs of a spec. A stacked worker does not measure forms: all of them must take the same one."""
    setup = rebuild(text)
    run = setup.spec.run
    if run["ray_execute"] == "inline":
        return setup.plan.algorithm, setup.executor()
    from fedfleet.runtime.executors.stacked.executor import stacked

    return setup.plan.algorithm, stacked(
        setup.task, device=run["device"], threads=run["threads"], form="merged", tf32=run["tf32"]
    )


def with_overrides(algorithm: Algorithm, spec: Spec, world: World) -> Algorithm:
    """The algorithm with the settings that [[override]] gives to some clients or kinds of device."""
    variants: list[tuple[Ints, Algorithm]] = []
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
        variants.append((members, build_part("algorithms", {**spec.algorithm, **table["algorithm"]})))
    return overridden(algorithm, tuple(variants), len(world.keys)) if variants else algorithm


def in_one_place(plan: Plan, world: World) -> tuple[Plan, World]:
    """The same problem for one trainer that holds everybody's training data; the clients' test shards stay theirs."""
    inner = world.data
    everything = np.concatenate([inner.shard(c, "train", 0) for c in range(plan.clients)])
    keys: Keys = client_keys(1)

    def shard(client: int, split: Split, round: int) -> Ints:
        return everything if split == "train" else inner.shard(client, split, round)

    data = DataSource(shard, lambda round: np.array([len(everything)]), inner.testers, inner.holdout)
    devices = DeviceSource(lambda clients, cost, start, tasks: np.zeros(len(clients)), ["server"])
    states = StateSource(lambda t: np.ones(1, np.bool_), lambda clients, start, seconds: start + seconds)
    alone = replace(plan, clients=1, pace=readiness(1, min_clients=1), byte_scale=0.0)
    return alone, World(keys, devices, states, data)
