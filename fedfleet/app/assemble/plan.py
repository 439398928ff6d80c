"""Assembling: build every part that a spec names, and check that they fit together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedfleet.app.assemble.algorithm import build_algorithm, facts_for, with_overrides, with_task_loss
from fedfleet.app.assemble.dealt_people import DealtPeople, dealt_people
from fedfleet.app.assemble.executor_choice import check_executor, make_executor
from fedfleet.app.assemble.feasibility import check_silence, memory_warnings
from fedfleet.app.assemble.plan_checks import (
    check_batches,
    check_charge,
    check_clients,
    check_cohort,
    check_first_jobs,
    check_fold_minimum,
    check_pace,
    check_report_capacity,
    check_rounds,
    check_stop,
    check_target,
    check_whole_work,
)
from fedfleet.app.assemble.private_noise import check_sampling, with_private_noise
from fedfleet.app.assemble.setup import Setup
from fedfleet.app.assemble.task_warnings import task_warnings
from fedfleet.app.assemble.user_layer import Households, assign_households, edge_fleet, edge_rule, user_world
from fedfleet.app.assemble.world import apply_holdouts, devices_for, faults_for, pool_clients, states_for, world_extras
from fedfleet.app.spec import Spec
from fedfleet.app.spec.people import named_task
from fedfleet.app.spec.table_checks import build_part
from fedfleet.choose.uniform import uniform
from fedfleet.core.cost import cost_of, epochs_of, scale_cost
from fedfleet.core.errors import BadInput
from fedfleet.core.part_facts import FleetFacts, RunFacts
from fedfleet.core.parts import Plan, Policy, Task
from fedfleet.core.records import Floats, Ints, Stop, whole_work
from fedfleet.core.rng import client_keys
from fedfleet.core.room import with_room
from fedfleet.core.sources import World
from fedfleet.core.trees import tree_nbytes
from fedfleet.engine.hierarchy import nest_algorithm
from fedfleet.world.faults import reachable_states
from fedfleet.world.partitions import make_shards, poison_task


def assemble(spec: Spec, task: Task | None = None) -> Setup:
    """Everything that a run of this spec needs; `task` replaces the one that the spec names."""
    check_executor(spec)
    check_clients(spec)
    check_pace(spec.pace, "pace")
    pace: Policy = build_part("policies", spec.pace)
    check_cohort(pace, spec.world["clients"], "clients")
    if task is None and spec.has_custom_task:
        raise BadInput(
            'task.use = "own": this spec does not contain its model and data; they are in the folder of its run. '
            "Continue that run with --resume --out FOLDER, or give model= and data= in Python, as in "
            "fedfleet.run(.., model=.., data=..)"
        )
    built_task: Task = task if task is not None else named_task(spec)
    held_out = apply_holdouts(spec, built_task)
    asked, (world, households, people, built_task) = spec, _flat_world(spec, held_out)
    spec = with_private_noise(spec, pace, world)
    labels_changed = built_task.dataset.y is not held_out.dataset.y
    plan, built_task = _flat_plan(spec, built_task, pace, world)
    plan = replace(plan, spec_digest=asked.digest)
    check_stop(plan.stop)
    if spec.run["execute"] in ("numpy", "mnn"):
        from fedfleet.executors.described_executor import check_trainable

        check_trainable(spec.run["execute"], plan.algorithm, built_task)
    if spec.edge is None:
        plan = with_selector(spec, plan, world, built_task)
    memory_problems = () if plan.algorithm.pooled else tuple(memory_warnings(plan, world, tree_nbytes(built_task.frozen)))
    model_problems = task_warnings(built_task)
    if plan.algorithm.pooled:
        plan, world = pool_clients(plan, world)
    check_batches(built_task, plan, world)
    check_target(plan.stop, built_task)
    check_first_jobs(plan)
    check_fold_minimum(plan)
    if spec.edge is not None and households is not None:
        plan, world = _users_as_clients(spec, plan, world, built_task, households)
        plan = with_selector(spec, plan, world, built_task)
        check_whole_work(plan)
    else:
        plan = replace(plan, algorithm=with_room(plan.algorithm, plan.pace, plan.clients, world.data.sizes(0)))
    check_report_capacity(plan)
    check_rounds(plan)
    check_charge(spec, plan)
    check_sampling(spec, plan, world)
    check_silence(plan, world)
    return Setup(
        spec=asked,
        plan=plan,
        world=world,
        task=built_task,
        executor=lambda form=None: make_executor(spec, built_task, form),
        warnings=(*memory_problems, *(people.warnings if people else ()), *model_problems),
        people=people,
        labels_changed=labels_changed,
    )


def _flat_world(spec: Spec, task: Task) -> tuple[World, Households | None, DealtPeople | None, Task]:
    """The world whose clients are devices; the users that they belong to, where the spec names any; the people in the data, where
    they are dealt by owner; and the task as clients hold it."""
    table, keys, fleet = spec.world, client_keys(spec.world["clients"]), spec.fleet_seed
    devices, states = devices_for(table, keys, fleet), states_for(table, keys, fleet)
    extras = world_extras(table, devices, states, keys, fleet)
    deal = build_part("partitions", table["data"])
    if "users" in table:
        households = assign_households(table, task, deal, len(keys), fleet, spec.data_seed)
        world = World(
            keys, devices, extras.states, households.on_devices, households.users, extras.faults, extras.energy, extras.free_probes
        )
        return world, households, households.people, poison_task(deal, task, world.data, keys, spec.data_seed)
    people = dealt_people(deal, task, len(keys), table["min_samples"])
    data = make_shards(deal, task, keys, spec.data_seed, split=tuple(table["split"]), min_samples=table["min_samples"])
    world = World(keys, devices, extras.states, data, None, extras.faults, extras.energy, extras.free_probes)
    return world, None, people, poison_task(deal, task, data, keys, spec.data_seed)


def _flat_plan(spec: Spec, task: Task, pace: Policy, world: World) -> tuple[Plan, Task]:
    """The plan whose clients are devices, and the task as its algorithm trains it."""
    params = task.init(spec.training_seed)
    declared = spec.world["model_bytes"]
    facts = facts_for(spec, task, world, 1.0 if declared is None else declared / tree_nbytes(params))
    algorithm, adapted_task = build_algorithm(spec.algorithm, task, facts, spec.training_seed)
    if adapted_task is not task:
        task, params = adapted_task, adapted_task.init(spec.training_seed)
    algorithm.init(params)  # it refuses a model that it cannot work with
    algorithm = with_overrides(algorithm, spec, world, facts, params)
    plan = Plan(
        seed=spec.training_seed,
        algorithm=with_task_loss(algorithm, task),
        choose=uniform(),  # until it is known among whom: `with_selector`
        pace=pace,
        stop=Stop(**spec.stop),
        params=params,
        clients=len(world.keys),
        byte_scale=1.0 if declared is None else declared / tree_nbytes(task.whole(params)),
        charge=spec.world["charge"],
    )
    return plan, task


def _users_as_clients(spec: Spec, plan: Plan, world: World, task: Task, households: Households) -> tuple[Plan, World]:
    """The same fleet with users as clients: each user's edge trains on the devices behind it."""
    if plan.algorithm.pooled:
        raise BadInput(f"edge: {plan.algorithm.name!r} trains in one place, so there is nothing for edges to do; remove [edge]")
    check_cohort(plan.pace, len(households.users), "users")
    extra_leaves = plan.algorithm.fold.like(plan.algorithm.init(plan.params)).keys() - plan.params.keys()
    if extra_leaves:
        raise BadInput(
            f"edge: {plan.algorithm.name!r} sends other values than updates of the model "
            f"({min(extra_leaves)}), which edges cannot "
            "average; use another algorithm, or remove [edge]"
        )
    assert spec.edge is not None
    rule = edge_rule(spec.edge, task, epochs_of(plan.algorithm, world.data.sizes(0)), spec.training_seed)
    fleet = edge_fleet(households, world.devices, world.keys, plan.byte_scale, world.energy)
    states = states_for(spec.world, households.keys, spec.fleet_seed)
    faults = faults_for(spec.world, households.keys, spec.fleet_seed)  # of users, who are the clients now
    users = user_world(households, world.devices, reachable_states(states, faults), world.energy)
    # Edges and the server add up alike, so that room is made before the algorithm is nested.
    algorithm = with_room(plan.algorithm, plan.pace, len(households.users), users.data.sizes(0), forwarded=True)
    user_plan = replace(plan, algorithm=nest_algorithm(algorithm, rule, fleet), clients=len(households.users))
    return user_plan, replace(users, faults=faults, free_probes=world.free_probes)


def with_selector(spec: Spec, plan: Plan, world: World, task: Task) -> Plan:
    """The plan with the selector that its spec names."""

    def trip_seconds() -> Floats:
        everyone: Ints = np.arange(plan.clients)
        server = plan.algorithm.init(plan.params)
        full_cost = cost_of(plan.algorithm, server, whole_work(everyone), world.data.sizes(0))
        cost = scale_cost(full_cost, plan.byte_scale, plan.charge)
        return world.devices.seconds(everyone, cost, 0.0, np.zeros(plan.clients, np.int64))

    base_facts = facts_for(spec, task, world, plan.byte_scale)
    fleet: FleetFacts = replace(
        base_facts[FleetFacts], kinds=world.devices.kinds, tags=_tags(spec, plan.clients), trip_seconds=trip_seconds
    )
    facts = {**base_facts, FleetFacts: fleet, RunFacts: replace(base_facts[RunFacts], clients=plan.clients)}
    return replace(plan, choose=build_part("selectors", spec.choose, facts))


def _tags(spec: Spec, clients: int) -> dict[str, Ints]:
    result: dict[str, Ints] = {}
    for tag, members in (spec.world["tags"] or {}).items():
        if not members:
            raise BadInput(f"world.tags.{tag}: the list is empty; list clients by number, or leave {tag} out")
        if max(members) >= clients:
            what = "users" if spec.edge is not None else "clients"
            raise BadInput(f"world.tags.{tag}: there is no client {max(members)} in a fleet of {clients} {what}")
        result[tag] = np.array(members, np.int64)
    return result
