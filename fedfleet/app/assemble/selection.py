"""Who chooses: the selector of a spec, told about the clients that it will choose among, devices or users."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedfleet.app.assemble.overrides import facts_for
from fedfleet.app.spec import Spec
from fedfleet.app.spec.table_checks import build_part
from fedfleet.core.cost import cost_of, scale_cost
from fedfleet.core.errors import BadInput
from fedfleet.core.part_facts import FleetFacts, RunFacts
from fedfleet.core.parts import Plan, Task
from fedfleet.core.records import Floats, Ints, whole_work
from fedfleet.core.sources import World


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
            raise BadInput(f"world.tags.{tag}: it names nobody; list clients by number, or leave it out")
        if max(members) >= clients:
            what = "users" if spec.edge is not None else "clients"
            raise BadInput(f"world.tags.{tag}: there is no client {max(members)} in a fleet of {clients} {what}")
        result[tag] = np.array(members, np.int64)
    return result
