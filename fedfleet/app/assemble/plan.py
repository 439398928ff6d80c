"""Assembling: build every part that a spec names, and check that they fit together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

from fedfleet.app.assemble.batch_checks import check_batches
from fedfleet.app.assemble.executor_choice import check_executor, make_executor
from fedfleet.app.assemble.feasibility import check_silence, memory_warnings
from fedfleet.app.assemble.holdout import apply_holdouts
from fedfleet.app.assemble.overrides import facts_for, with_overrides
from fedfleet.app.assemble.selection import with_selector
from fedfleet.app.assemble.setup import Setup
from fedfleet.app.assemble.start_checks import check_first_jobs
from fedfleet.app.assemble.user_layer import Households, assign_households, edge_fleet, edge_rule, user_world
from fedfleet.app.assemble.world import devices_for, faults_for, pool_clients, states_for, world_extras
from fedfleet.app.spec import Spec
from fedfleet.app.spec.table_checks import build_part
from fedfleet.choose.uniform import uniform
from fedfleet.core.cost import epochs_of
from fedfleet.core.errors import BadInput
from fedfleet.core.memory_limit import check_memory
from fedfleet.core.parts import Algorithm, Plan, Policy, Task
from fedfleet.core.passes import NO_SETTINGS
from fedfleet.core.records import Stop
from fedfleet.core.rng import client_keys
from fedfleet.core.sources import World
from fedfleet.core.trees import tree_nbytes
from fedfleet.engine.hierarchy import nest_algorithm
from fedfleet.learn.objectives import with_loss
from fedfleet.simulation.rosters import remembers
from fedfleet.world.downtime import reachable_states
from fedfleet.world.partitions import make_shards
from fedfleet.world.poison import poison_task

# What a client costs while a world is made; and as one of a user's devices, whose samples are listed one by one.
_CLIENT_BYTES, _USER_BYTES = 400, 4000


def assemble(spec: Spec, task: Task | None = None) -> Setup:
    """Everything that a run of this spec needs; `task` replaces the one that the spec names."""
    check_executor(spec)
    check_clients(spec)
    _check_pace(spec.pace, "pace")
    pace: Policy = build_part("policies", spec.pace)
    _check_cohort(pace, spec.world["clients"], "clients")
    if task is None and spec.task["use"] == "own":
        raise BadInput(
            'task.use = "own": the model and the data of this spec are not in it but in the folder of its run; go on there with '
            "--resume --out FOLDER, or give model= and data= in Python, as in fedfleet.run(.., model=.., data=..)"
        )
    built_task: Task = task if task is not None else build_part("tasks", spec.task)(spec.data_seed)
    world, households, built_task = _flat_world(spec, apply_holdouts(spec, built_task))
    plan, built_task = _flat_plan(spec, built_task, pace, world)
    _check_stop(plan.stop)
    if spec.edge is None:
        plan = with_selector(spec, plan, world, built_task)
    memory_problems = (
        () if plan.algorithm.pooled else tuple(memory_warnings(plan, world, tree_nbytes(built_task.frozen)))
    )
    if plan.algorithm.pooled:
        plan, world = pool_clients(plan, world)
    check_batches(built_task, plan, world)
    check_first_jobs(plan)
    _check_fold_minimum(plan)
    if spec.edge is not None and households is not None:
        plan, world = _users_as_clients(spec, plan, world, built_task, households)
        plan = with_selector(spec, plan, world, built_task)
        _check_whole_work(plan)
    _check_report_capacity(plan)
    _check_rounds(plan)
    _check_charge(spec, plan)
    check_silence(plan, world)
    return Setup(
        spec, plan, world, built_task, lambda form=None: make_executor(spec, built_task, form), memory_problems
    )


def _flat_world(spec: Spec, task: Task) -> tuple[World, Households | None, Task]:
    """The world whose clients are devices; the users that they belong to, where the spec names any; the task as they hold it."""
    table, keys, fleet = spec.world, client_keys(spec.world["clients"]), spec.fleet_seed
    devices, states = devices_for(table, keys, fleet), states_for(table, keys, fleet)
    extras = world_extras(table, devices, states, keys, fleet)
    deal = build_part("partitions", table["data"])
    if "users" in table:
        households = assign_households(table, task, deal, len(keys), fleet, spec.data_seed)
        world = World(
            keys,
            devices,
            extras.states,
            households.on_devices,
            households.users,
            extras.faults,
            extras.energy,
            extras.free_probes,
        )
        return world, households, poison_task(deal, task, world.data, keys, spec.data_seed)
    data = make_shards(deal, task, keys, spec.data_seed, split=tuple(table["split"]), min_samples=table["min_samples"])
    world = World(keys, devices, extras.states, data, None, extras.faults, extras.energy, extras.free_probes)
    return world, None, poison_task(deal, task, data, keys, spec.data_seed)


def _flat_plan(spec: Spec, task: Task, pace: Policy, world: World) -> tuple[Plan, Task]:
    """The plan whose clients are devices, and the task as its algorithm trains it."""
    params = task.init(spec.training_seed)
    declared = spec.world["model_bytes"]
    facts = facts_for(spec, task, world, 1.0 if declared is None else declared / tree_nbytes(params))
    algorithm: Algorithm = build_part("algorithms", spec.algorithm, facts)
    if algorithm.adapt is not None:
        task = adapt_task(algorithm, task, spec.training_seed)
        params = task.init(spec.training_seed)
    algorithm.init(params)  # it refuses a model that it cannot work with
    algorithm = with_overrides(algorithm, spec, world, facts, params)
    plan = Plan(
        seed=spec.training_seed,
        algorithm=algorithm if task.loss is None else with_loss(algorithm, task.loss),
        choose=uniform(),  # until it is known among whom: `with_selector`
        pace=pace,
        stop=Stop(**spec.stop),
        params=params,
        clients=len(world.keys),
        byte_scale=1.0 if declared is None else declared / tree_nbytes(task.whole(params)),
        spec_digest=spec.digest,
        charge=spec.world["charge"],
    )
    return plan, task


def adapt_task(algorithm: Algorithm, task: Task, seed: int) -> Task:
    """The task as this algorithm trains it: wherever a task is made, it passes through here before anything trains."""
    return task if algorithm.adapt is None else algorithm.adapt(task, seed)


def _users_as_clients(spec: Spec, plan: Plan, world: World, task: Task, households: Households) -> tuple[Plan, World]:
    """The same fleet with users as clients: each user's edge trains on the devices behind it."""
    if plan.algorithm.pooled:
        raise BadInput(
            f"edge: {plan.algorithm.name!r} trains in one place, so there is nothing for edges to do; remove [edge]"
        )
    _check_cohort(plan.pace, len(households.users), "users")
    extra_leaves = plan.algorithm.fold.like(plan.algorithm.init(plan.params)).keys() - plan.params.keys()
    if extra_leaves:
        raise BadInput(
            f"edge: {plan.algorithm.name!r} sends something else than updates of the model "
            f"({min(extra_leaves)}), which edges cannot "
            "average; use another algorithm, or remove [edge]"
        )
    assert spec.edge is not None
    rule = edge_rule(spec.edge, task, epochs_of(plan.algorithm, world.data.sizes(0)), spec.training_seed)
    fleet = edge_fleet(households, world.devices, world.keys, plan.byte_scale, world.energy)
    states = states_for(spec.world, households.keys, spec.fleet_seed)
    user_plan = replace(plan, algorithm=nest_algorithm(plan.algorithm, rule, fleet), clients=len(households.users))
    faults = faults_for(spec.world, households.keys, spec.fleet_seed)  # of users, who are the clients now
    users = user_world(households, world.devices, reachable_states(states, faults), world.energy)
    return user_plan, replace(users, faults=faults, free_probes=world.free_probes)


def _check_pace(table: Mapping[str, Any], where: str) -> None:
    """Refuse a policy that is made of the same policy twice."""
    inner = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    for (key, policy), (other_key, other_policy) in combinations(inner.items(), 2):
        if policy == other_policy:
            raise BadInput(
                f"{where}: {key} and {other_key} are the same policy {policy['use']!r}, and one is enough; let "
                f"them differ, or name one"
            )
    for key, value in inner.items():
        _check_pace(value, f"{where}.{key}")


def _check_fold_minimum(plan: Plan) -> None:
    least, holds = plan.algorithm.fold.least, plan.pace.holds
    cohort, key = (plan.pace.cohort, plan.pace.key) if holds is None else (holds, plan.pace.holds_key)
    if cohort < least:
        raise BadInput(
            f"algorithm.fold: it needs {least} reports, and a round of {plan.pace.name!r} has {cohort} at most; raise pace.{key}, "
            "or lower what the fold asks for"
        )


def _check_report_capacity(plan: Plan) -> None:
    """Who remembers is asked again only after its report was folded, so that a commit has one report of each at most."""
    holds = plan.pace.holds
    if holds is None or holds <= plan.clients:
        return
    if any(remembers(plan.algorithm.local(client, NO_SETTINGS)) for client in range(plan.clients)):
        key = f"pace.{plan.pace.holds_key}"
        raise BadInput(
            f"{key} = {holds}: clients of {plan.algorithm.name!r} remember, so that each has one report in a commit, and there "
            f"are {plan.clients}; lower {key} or raise world.clients"
        )


def _check_whole_work(plan: Plan) -> None:
    """Edges train on all that they hold, as their own rule says: nobody can give them less, or more, to do."""
    if plan.choose.tailors:
        raise BadInput(
            f"choose: {plan.choose.name!r} gives each client work of its own (data, steps, a part of the model), and edges do all "
            "of theirs; use another selector, or remove [edge]"
        )


def _check_charge(spec: Spec, plan: Plan) -> None:
    """A flat charge makes all work cost alike: whoever gives out work by its price would be misled."""
    if plan.charge is None:
        return
    if spec.edge is not None:
        raise BadInput("world.charge: edges plan by what training really costs; remove [edge], or world.charge")
    if plan.choose.tailors:
        raise BadInput(
            f"world.charge: {plan.choose.name!r} gives each client the work that it has time for, and with a flat charge any work "
            "takes the same time; use another selector, or remove world.charge"
        )


def _check_rounds(plan: Plan) -> None:
    if plan.choose.by_round and not plan.pace.rounds:
        raise BadInput(
            f"choose: {plan.choose.name!r} picks a whole round at once, and {plan.pace.name!r} has no rounds but replaces clients "
            'one by one; use another selector, or a policy with rounds such as pace.use = "readiness"'
        )


def _check_stop(stop: Stop) -> None:
    if stop.commits is not None and stop.commits > stop.rounds:
        raise BadInput(
            f"stop.commits: {stop.commits} models can never be made in stop.rounds = {stop.rounds} rounds; raise stop.rounds, "
            "which counts attempts"
        )


def check_clients(spec: Spec) -> None:
    """Refuse a fleet that does not fit into this machine's memory, before any of it is taken."""
    n = spec.world["clients"]
    each = _USER_BYTES if "users" in spec.world else _CLIENT_BYTES
    check_memory(each * n, f"world.clients: a fleet of {n:,} clients", "ask for fewer clients")


def _check_cohort(pace: Policy, clients: int, what: str) -> None:
    if pace.cohort > clients:
        raise BadInput(
            f"pace: {pace.name!r} wants {pace.cohort} clients at once, which is larger than the fleet of {clients} {what}; "
            f"lower pace.{pace.key} or raise world.clients"
        )
