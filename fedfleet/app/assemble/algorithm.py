"""The algorithm of a run and of one client: built from its table, with what builders may ask, and with [[override]].

A plan and a device (`client_config`) build with the same functions. A device's table has its overrides applied (`table_for`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fedfleet.app.spec.table_checks import Table, build_part
from fedfleet.core.equality import same
from fedfleet.core.errors import BadInput, suggest_name
from fedfleet.core.part_facts import FleetFacts, ModelFacts, ModelOf, RunFacts
from fedfleet.core.parts import Algorithm, Task
from fedfleet.core.passes import NO_SETTINGS
from fedfleet.core.records import Ints
from fedfleet.core.sources import World
from fedfleet.core.trees import Tree, mismatch
from fedfleet.learn.features import with_variants
from fedfleet.learn.objectives import with_loss
from fedfleet.tasks.narrow_models import shape_at

if TYPE_CHECKING:
    from fedfleet.app.spec.spec_record import Spec

Facts = Mapping[Any, Any]  # by type, what builders may ask for


def part_facts(run: RunFacts, task: Task, fleet: FleetFacts) -> Facts:
    """What a builder may ask about a run, its model and its devices. The model is inspected only if a builder asks, and once.

    The shape of the model at a share of its width is filled in here.
    """

    @cache
    def model() -> ModelFacts:
        from fedfleet.tasks.model_parts import model_facts

        return model_facts(task)

    return {RunFacts: run, ModelOf: model, FleetFacts: replace(fleet, model=cache(partial(shape_at, task)))}


def facts_for(spec: Spec, task: Task, world: World, byte_scale: float) -> Facts:
    """What a builder may ask when a whole run is assembled."""
    run = RunFacts(spec.world["clients"], spec.training_seed, spec.stop["rounds"])
    fleet = FleetFacts(keys=world.keys, seed=spec.training_seed, memory_mb=world.devices.memory_mb, byte_scale=byte_scale)
    return part_facts(run, task, fleet)


def build_algorithm(table: Table, task: Task, facts: Facts, seed: int) -> tuple[Algorithm, Task]:
    """The algorithm of a table, with its codecs and its optimiser, and the task as it trains it; for a plan and for a device."""
    algorithm: Algorithm = build_part("algorithms", table, facts)
    return algorithm, adapt_task(algorithm, task, seed)


def adapt_task(algorithm: Algorithm, task: Task, seed: int) -> Task:
    """The task as this algorithm trains it; every task passes through here before anything trains."""
    return task if algorithm.adapt is None else algorithm.adapt(task, seed)


def with_task_loss(algorithm: Algorithm, task: Task) -> Algorithm:
    """The algorithm whose clients train by the task's own loss, where it has one; the last step for a plan and for a device."""
    return algorithm if task.loss is None else with_loss(algorithm, task.loss)


def with_overrides(algorithm: Algorithm, spec: Spec, world: World, facts: Facts, params: Tree) -> Algorithm:
    """The algorithm with the settings that [[override]] gives to some clients or kinds of device.

    A client that several tables name has the settings of all; where two change the same setting the later one counts.
    """
    if not spec.override:
        return algorithm
    kinds = np.array(world.devices.kinds)
    applying, combination = combinations([_members(spec, i, kinds) for i in range(len(spec.override))], len(world.keys))
    used = [number for number in np.unique(combination).tolist() if number]
    variants: list[tuple[Ints, Algorithm]] = []
    for number in used:
        where = " and ".join(f"override[{i}]" for i in applying[number]) + ".algorithm"
        members, table = np.flatnonzero(combination == number), _table(spec, applying[number], where)
        try:
            variant = build_part("algorithms", table, facts)
            variant.init(params)
        except BadInput as error:
            raise BadInput(f"{where}: {error}") from None
        _check_leaves(algorithm, variant, params, where)
        _check_reaches_client(spec.algorithm, table, variant, facts, (int(members[0]), params, where))
        variants.append((members, variant))
    return with_variants(algorithm, tuple(variants), len(world.keys))


def table_for(spec: Spec, client: int, kind: str) -> Table:
    """The algorithm's table of one client with a device of this kind, all that [[override]] says of it applied."""
    applying = [i for i, o in enumerate(spec.override) if client in o["clients"] or kind in o["kinds"]]
    return _table(spec, tuple(applying), " and ".join(f"override[{i}]" for i in applying) + ".algorithm")


def combinations(members: list[Ints], clients: int) -> tuple[list[tuple[int, ...]], Ints]:
    """Which tables apply together, and the number of the combination that each client has; the first is none at all.

    >>> combinations([np.array([0, 1]), np.array([1, 2])], 4)
    ([(), (0,), (1,), (0, 1)], array([1, 3, 2, 0]))
    """
    result: dict[tuple[int, ...], int] = {(): 0}
    which = np.zeros(clients, np.int64)
    for table, indices in enumerate(members):
        before, names = which[indices], list(result)
        after = before.copy()
        for number in np.unique(before).tolist():
            after[before == number] = result.setdefault((*names[number], table), len(result))
        which[indices] = after
    return list(result), which


def _members(spec: Spec, i: int, kinds: np.ndarray) -> Ints:
    """The clients that a table names, by number or by the kind of their device."""
    table, fleet = spec.override[i], len(kinds)
    result = [np.array(table["clients"], np.int64)]
    if len(result[0]) and result[0].max() >= fleet:
        raise BadInput(f"override[{i}].clients: there is no client {result[0].max()} in a fleet of {fleet}")
    for kind in table["kinds"]:
        own = np.flatnonzero(kinds == kind)
        if not len(own):
            raise BadInput(
                f"override[{i}].kinds: the fleet has no device of kind {kind!r}{suggest_name(kind, set(kinds.tolist()))}"
            )
        result.append(own)
    return np.unique(np.concatenate(result))


def _table(spec: Spec, tables: tuple[int, ...], where: str) -> Table:
    # only where specs are read: a device has none
    from fedfleet.app.spec.resolution import change_algorithm

    table = spec.algorithm
    for i in tables:
        server_key = next((key for key in ("fold", "private") if key in spec.override[i]["algorithm"]), None)
        if server_key is not None:
            raise BadInput(
                f"{where}.{server_key}: only the server uses this setting, for all clients; set algorithm.{server_key} instead"
            )
        table = change_algorithm(table, spec.override[i]["algorithm"], where)
    return table


def _check_leaves(algorithm: Algorithm, variant: Algorithm, params: Tree, where: str) -> None:
    """One fold takes the same leaves from everyone."""
    base_leaves, variant_leaves = (a.fold.like(a.init(params)) for a in (algorithm, variant))
    odd = mismatch(variant_leaves, base_leaves) if variant_leaves or base_leaves else None
    if odd is not None:
        raise BadInput(
            f"{where}: the clients of this override would not send the same leaves as the rest of the fleet ({odd}), but the "
            "server needs the same leaves from all clients; set in [algorithm] which leaves stay on the device"
        )


def _check_reaches_client(base: Table, table: Table, variant: Algorithm, facts: Facts, at: tuple[int, Tree, str]) -> None:
    """Refuse a setting that only the server uses: an override of it for some clients would change nothing."""
    client, params, where = at
    for key in [key for key in table if table[key] != base[key]]:
        try:
            without: Algorithm = build_part("algorithms", {**table, key: base[key]}, facts)
            unchanged = same(_client_side(without, client, params), _client_side(variant, client, params))
        except BadInput:  # settings that only go together all reach the client
            continue
        if unchanged:
            raise BadInput(
                f"{where}.{key}: only the server uses this setting, so setting it for only some clients changes nothing; set "
                f"algorithm.{key} instead"
            )


def _client_side(algorithm: Algorithm, client: int, params: Tree) -> tuple[Any, ...]:
    """Everything that reaches this client."""
    tuned = None if algorithm.tune is None else algorithm.tune(client)
    offered = algorithm.offer(algorithm.init(params), client, NO_SETTINGS)
    return offered, algorithm.local(client, NO_SETTINGS), tuned
